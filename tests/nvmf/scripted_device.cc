#include "tests/nvmf/scripted_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace uroce::testing {

namespace {

using block::Operation;
using block::Outcome;

void broken(bool rule, const char* what) {
  if (!rule) throw std::logic_error(what);
}

class ScriptedQueue final : public block::Queue {
 public:
  ScriptedQueue(std::shared_ptr<DeviceScript> script, uint32_t depth)
      : script_(std::move(script)), depth_(depth) {
    ++script_->queues;
  }
  ~ScriptedQueue() override { --script_->queues; }

  bool submit(const block::Request& request) override {
    if (script_->refusals > 0) {
      --script_->refusals;
      return false;
    }
    check(request);
    if (under_way_.size() == depth_) return false;
    if (script_->log)
      script_->seen.push_back({request.operation, request.force_unit_access, request.block, request.blocks});
    under_way_.push_back(request);
    return true;
  }

  size_t poll(std::span<block::Ended> ended) override {
    if (script_->hold) return 0;
    size_t count = 0;
    for (; count < ended.size() && !under_way_.empty(); ++count, under_way_.pop_front())
      ended[count] = {under_way_.front().user, carry_out(under_way_.front())};
    return count;
  }

 private:
  /// What a device may rely on.
  void check(const block::Request& request) const {
    broken(request.user != nullptr, "a block request without a user");
    if (request.operation == Operation::kFlush) return;
    broken(request.blocks > 0, "a block request of no blocks");
    broken(request.block < script_->blocks && request.blocks <= script_->blocks - request.block,
           "a block request outside the device");
    broken(!script_->read_only || request.operation == Operation::kRead, "a read-only device is written to");
    if (request.operation != Operation::kRead && request.operation != Operation::kWrite) return;
    uint64_t bytes = 0;
    for (const iovec& piece : request.memory) {
      broken(piece.iov_len % script_->block_bytes == 0, "a piece that is not whole blocks");
      bytes += piece.iov_len;
    }
    broken(bytes == uint64_t{request.blocks} * script_->block_bytes, "a block request of another length");
  }

  Outcome carry_out(const block::Request& request) {
    if (!script_->outcomes.empty()) {
      const Outcome outcome = script_->outcomes.front();
      script_->outcomes.pop_front();
      if (outcome != Outcome::kDone) return outcome;
    }
    std::byte* at = script_->bytes.data() + request.block * script_->block_bytes;
    switch (request.operation) {
      case Operation::kRead:
        for (const iovec& piece : request.memory) {
          std::memcpy(piece.iov_base, at, piece.iov_len);
          at += piece.iov_len;
        }
        break;
      case Operation::kWrite:
        for (const iovec& piece : request.memory) {
          std::memcpy(at, piece.iov_base, piece.iov_len);
          at += piece.iov_len;
        }
        break;
      case Operation::kWriteZeroes:
      case Operation::kDeallocate:
        std::memset(at, 0, uint64_t{request.blocks} * script_->block_bytes);
        break;
      case Operation::kFlush:
        break;
    }
    return Outcome::kDone;
  }

  std::shared_ptr<DeviceScript> script_;
  const uint32_t depth_;
  std::deque<block::Request> under_way_;
};

class ScriptedDevice final : public block::Device {
 public:
  explicit ScriptedDevice(std::shared_ptr<DeviceScript> script) : script_(std::move(script)) {
    script_->bytes.resize(script_->blocks * script_->block_bytes);
    properties_ = {.description = "scripted",
                   .block_bytes = script_->block_bytes,
                   .blocks = script_->blocks,
                   .volatile_cache = script_->volatile_cache,
                   .read_only = script_->read_only};
  }
  ~ScriptedDevice() override { script_->destroyed = true; }

  [[nodiscard]] const block::Properties& properties() const override { return properties_; }
  [[nodiscard]] std::span<std::byte> memory() override {
    return script_->in_memory ? std::span(script_->bytes) : std::span<std::byte>();
  }
  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>>) override {
    if (script_->refuse_queues) return Error{EMFILE, "the script says so"};
    return std::unique_ptr<block::Queue>(std::make_unique<ScriptedQueue>(script_, depth));
  }

 private:
  std::shared_ptr<DeviceScript> script_;
  block::Properties properties_;
};

}  // namespace

size_t DeviceScript::count(Operation operation) const {
  return static_cast<size_t>(std::ranges::count(seen, operation, &Seen::operation));
}

std::unique_ptr<block::Device> make_scripted_device(std::shared_ptr<DeviceScript> script) {
  return std::make_unique<ScriptedDevice>(std::move(script));
}

}  // namespace uroce::testing
