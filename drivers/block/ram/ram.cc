// Decision: all memory is allocated at start, and none is freed when blocks are deallocated. So no page fault
// occurs in the loop. Zeroing is done in slices, because a host may deallocate terabytes by one command.
#include "drivers/block/ram/ram.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "drivers/block/bounded_queue.h"
#include "drivers/block/ram/memory.h"

namespace uroce::drivers {
namespace {

class RamQueue final : public block::Queue {
 public:
  RamQueue(std::span<std::byte> bytes, uint32_t block_bytes, uint32_t depth)
      : bytes_(bytes), block_bytes_(block_bytes), depth_(depth), ended_(depth), zeroing_(depth) {}

  bool submit(const block::Request& request) override;
  size_t poll(std::span<block::Ended> ended) override;

 private:
  struct Zeroing {
    std::span<std::byte> left;
    void* user = nullptr;
  };

  void copy(const block::Request& request, std::span<std::byte> blocks) const;
  void zero_slice();

  std::span<std::byte> bytes_;
  uint32_t block_bytes_;
  uint32_t depth_;
  BoundedQueue<block::Ended> ended_;
  BoundedQueue<Zeroing> zeroing_;
};

bool RamQueue::submit(const block::Request& request) {
  if (ended_.size() + zeroing_.size() == depth_) return false;
  const auto blocks = [&] {
    return bytes_.subspan(request.block * block_bytes_, uint64_t{request.blocks} * block_bytes_);
  };
  switch (request.operation) {
    case block::Operation::kRead:
    case block::Operation::kWrite:
      copy(request, blocks());
      break;
    case block::Operation::kFlush:
      break;
    case block::Operation::kWriteZeroes:
    case block::Operation::kDeallocate:
      zeroing_.push({.left = blocks(), .user = request.user});
      return true;
  }
  ended_.push({.user = request.user});
  return true;
}

size_t RamQueue::poll(std::span<block::Ended> ended) {
  zero_slice();
  const size_t count = std::min(ended.size(), ended_.size());
  for (block::Ended& one : ended.first(count)) one = ended_.pop();
  return count;
}

void RamQueue::copy(const block::Request& request, std::span<std::byte> blocks) const {
  for (const iovec& piece : request.memory) {
    if (request.operation == block::Operation::kRead) {
      std::memcpy(piece.iov_base, blocks.data(), piece.iov_len);
    } else {
      std::memcpy(blocks.data(), piece.iov_base, piece.iov_len);
    }
    blocks = blocks.subspan(piece.iov_len);
  }
}

/// Some 50 us at most: others wait for this thread.
void RamQueue::zero_slice() {
  constexpr size_t kSliceBytes = 512u << 10;
  if (zeroing_.empty()) return;
  Zeroing& first = zeroing_.front();
  const size_t length = std::min(first.left.size(), kSliceBytes);
  std::memset(first.left.data(), 0, length);
  first.left = first.left.subspan(length);
  if (first.left.empty()) ended_.push({.user = zeroing_.pop().user});
}

class RamDevice final : public block::Device {
 public:
  RamDevice(Memory memory, block::Properties properties)
      : memory_(std::move(memory)), properties_(std::move(properties)) {}

  [[nodiscard]] const block::Properties& properties() const override { return properties_; }
  [[nodiscard]] std::span<std::byte> memory() override { return memory_.bytes(); }

  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>>) override {
    return std::unique_ptr<block::Queue>(
        std::make_unique<RamQueue>(memory_.bytes(), properties_.block_bytes, depth));
  }

 private:
  Memory memory_;
  block::Properties properties_;
};

}  // namespace

Result<std::unique_ptr<block::Device>> open_ram(const BlockSpecification& specification) {
  Result<Memory> memory = Memory::make(*specification.size_bytes, specification.memory_node);
  if (!memory) return Error{memory.error().code, "ram: " + memory.error().message};
  const uint32_t block_bytes = specification.block_bytes.value_or(512);
  block::Properties properties = {.description = "ram, " + std::to_string(*specification.size_bytes) +
                                                 " bytes of " +
                                                 (memory->of_hugepages() ? "hugepages" : "ordinary pages"),
                                  .block_bytes = block_bytes,
                                  .blocks = *specification.size_bytes / block_bytes,
                                  .read_only = specification.read_only};
  return std::unique_ptr<block::Device>(
      std::make_unique<RamDevice>(std::move(*memory), std::move(properties)));
}

}  // namespace uroce::drivers
