#include "tests/block/power_cut.h"

#include <algorithm>
#include <utility>

namespace uroce::testing {

class PowerCutDevice::PowerCutQueue final : public block::Queue {
 public:
  PowerCutQueue(PowerCutDevice& device, uint32_t depth)
      : device_(device), cuts_(device.cuts_), depth_(depth) {}

  bool submit(const block::Request& request) override {
    if (under_way_.size() == depth_) return false;
    const auto polls = static_cast<uint32_t>(1 + device_.random_.below(device_.polls_max_));
    under_way_.push_back({.request = request,
                          .ends_in = polls,
                          .takes_effect_in = static_cast<uint32_t>(device_.random_.below(polls + 1))});
    step(under_way_.back());
    return true;
  }

  size_t poll(std::span<block::Ended> ended) override {
    for (UnderWay& one : under_way_) {
      if (one.takes_effect_in > 0) --one.takes_effect_in;
      if (one.ends_in > 0) --one.ends_in;
      step(one);
    }
    size_t count = 0;
    for (size_t i = 0; i < under_way_.size() && count < ended.size();) {
      if (under_way_[i].ends_in > 0) {
        ++i;
        continue;
      }
      ended[count++] = {under_way_[i].request.user, under_way_[i].outcome};
      under_way_[i] = under_way_.back();
      under_way_.pop_back();
    }
    return count;
  }

 private:
  struct UnderWay {
    block::Request request;
    uint32_t ends_in = 0;          // polls
    uint32_t takes_effect_in = 0;  // polls, not more than ends_in
    bool took_effect = false;
    block::Outcome outcome = block::Outcome::kDone;
  };

  void step(UnderWay& one) {
    if (one.takes_effect_in > 0 || one.took_effect) return;
    one.took_effect = true;
    if (device_.cuts_ != cuts_) {
      one.outcome = block::Outcome::kGone;
    } else {
      take_effect(one.request);
    }
  }

  void take_effect(const block::Request& request) {
    switch (request.operation) {
      case block::Operation::kRead:
        return read(request);
      case block::Operation::kWrite:
        return write(request);
      case block::Operation::kFlush:
        return device_.flush();
      case block::Operation::kWriteZeroes:
      case block::Operation::kDeallocate:
        for (uint32_t i = 0; i < request.blocks; ++i)
          device_.write(request.block + i, Contents(device_.properties_.block_bytes),
                        request.operation == block::Operation::kWriteZeroes && request.force_unit_access);
    }
  }

  void read(const block::Request& request) const {
    uint64_t block = request.block;
    for (const iovec& piece : request.memory) {
      auto* const memory = static_cast<std::byte*>(piece.iov_base);
      for (size_t at = 0; at < piece.iov_len; at += device_.properties_.block_bytes)
        std::ranges::copy(device_.now(block++), memory + at);
    }
  }

  void write(const block::Request& request) {
    const size_t block_bytes = device_.properties_.block_bytes;
    uint64_t block = request.block;
    for (const iovec& piece : request.memory) {
      const auto* const memory = static_cast<const std::byte*>(piece.iov_base);
      for (size_t at = 0; at < piece.iov_len; at += block_bytes)
        device_.write(block++, Contents(memory + at, memory + at + block_bytes), request.force_unit_access);
    }
  }

  PowerCutDevice& device_;
  uint32_t cuts_;  // that there had been when it was opened
  uint32_t depth_;
  std::vector<UnderWay> under_way_;
};

PowerCutDevice::PowerCutDevice(const Options& options)
    : properties_{.description = "a device whose power can be cut",
                  .block_bytes = options.block_bytes,
                  .blocks = options.blocks,
                  .volatile_cache = true},
      polls_max_(options.polls_max),
      random_(options.seed),
      blocks_(options.blocks, Block{.durable = Contents(options.block_bytes)}) {}

PowerCutDevice::~PowerCutDevice() = default;

Result<std::unique_ptr<block::Queue>> PowerCutDevice::open_queue(uint32_t depth,
                                                                 std::span<const std::span<std::byte>>) {
  return std::unique_ptr<block::Queue>(std::make_unique<PowerCutQueue>(*this, depth));
}

void PowerCutDevice::cut(Survivors survivors) {
  ++cuts_;
  for (Block& block : blocks_) {
    const uint64_t versions = survivors == Survivors::kSome ? block.since.size() + 1 : 1;
    if (const uint64_t version = random_.below(versions); version > 0)
      block.durable = std::move(block.since[version - 1]);
    block.since.clear();
  }
}

const PowerCutDevice::Contents& PowerCutDevice::now(uint64_t block) const {
  const Block& at = blocks_[block];
  return at.since.empty() ? at.durable : at.since.back();
}

void PowerCutDevice::write(uint64_t block, Contents contents, bool durable) {
  Block& at = blocks_[block];
  if (durable) {
    at.durable = std::move(contents);
    at.since.clear();
  } else {
    at.since.push_back(std::move(contents));
  }
}

/// Of what is under way nothing is promised, but what of it took effect already is in the same cache.
void PowerCutDevice::flush() {
  for (Block& block : blocks_) {
    if (block.since.empty()) continue;
    block.durable = std::move(block.since.back());
    block.since.clear();
  }
}

}  // namespace uroce::testing
