#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/values/contract.h"
#include "host/memory_format.h"

namespace uroce::host {

/// The memory that this process alone writes: its frames, most of which are free, and its ends of channels.
/// The mapping is the caller's, and outlives the object. One thread at a time.
class OwnMemory {
 public:
  static constexpr uint32_t kNoFrame = UINT32_MAX;

  /// Writes the preamble; `memory` is a zeroed mapping of MemoryLayout(shape).bytes().
  OwnMemory(std::byte* memory, MemoryShape shape);
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  [[nodiscard]] const MemoryLayout& layout() const { return layout_; }
  [[nodiscard]] std::byte* memory() const { return memory_; }
  [[nodiscard]] Bell& bell() const { return layout_.bell(memory_); }

  /// A free frame, that which became free last; kNoFrame: there is none.
  uint32_t take() {
    if (free_.empty()) return take_new();
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void put(uint32_t index) {
    UROCE_ASSERT(index < layout_.shape().frames && free_count() < layout_.shape().frames);
    free_.push_back(static_cast<uint16_t>(index));
  }
  /// Some that were used before are free.
  [[nodiscard]] bool has_used_ones() const { return !free_.empty(); }
  [[nodiscard]] uint32_t free_count() const {
    return static_cast<uint32_t>(free_.size()) + layout_.shape().frames - used_;
  }

  [[nodiscard]] std::byte* frame(uint32_t index) const { return layout_.frame(memory_, index); }
  /// The frame that begins at `data`, or kNoFrame when that is not in this memory.
  [[nodiscard]] uint32_t index_of(const std::byte* data) const {
    const auto offset = static_cast<size_t>(data - frame(0));
    return offset < size_t{layout_.shape().frames} * kFrameBytes ? static_cast<uint32_t>(offset / kFrameBytes)
                                                                 : kNoFrame;
  }

 private:
  /// One that was never used, so that those cost no memory.
  uint32_t take_new() { return used_ < layout_.shape().frames ? used_++ : kNoFrame; }

  std::byte* const memory_;
  const MemoryLayout layout_;
  std::vector<uint16_t> free_;
  uint32_t used_ = 0;  // frames that were ever taken
};

/// Whether what another process wrote in front of `memory`, of MemoryLayout(shape).bytes(), is of this
/// format.
bool has_format(const std::byte* memory, MemoryShape shape);

}  // namespace uroce::host
