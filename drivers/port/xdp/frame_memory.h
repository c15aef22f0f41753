#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/contract.h"

namespace uroce::drivers {

/// The memory that AF_XDP sockets of one port share with the kernel, in chunks of one page, one frame each.
class FrameMemory {
 public:
  static constexpr uint64_t kChunkBytes = 4096;  // the kernel takes no larger ones
  /// The kernel begins received frames there (XDP_PACKET_HEADROOM), and so do we.
  static constexpr uint64_t kHeadroom = 256;
  static constexpr uint32_t kFrameBytesMax = kChunkBytes - kHeadroom;

  /// Throws std::bad_alloc.
  explicit FrameMemory(size_t chunks);
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] size_t bytes() const { return chunks_ * kChunkBytes; }
  /// An address is what the kernel's rings have: bytes from the base. It names the chunk that it lies in.
  [[nodiscard]] std::byte* at(uint64_t address) const { return base_ + address; }
  [[nodiscard]] uint64_t address_of(const std::byte* place) const {
    return static_cast<uint64_t>(place - base_);
  }
  static uint64_t chunk_of(uint64_t address) { return address & ~(kChunkBytes - 1); }

  /// Moves up to `count` free chunks to the end of `to`. Any thread, as the next.
  void take(std::vector<uint64_t>& to, size_t count);
  /// Takes `count` of them back from the end of `from`.
  void give_back(std::vector<uint64_t>& from, size_t count);

 private:
  static void move(std::vector<uint64_t>& from, std::vector<uint64_t>& to, size_t count);

  const size_t chunks_;
  std::byte* base_;
  std::mutex mutex_;
  std::vector<uint64_t> free_;
};

/// The free chunks that a queue has at hand, of which the one that came back last is the next to go. The
/// queue's poller. The lock is taken once for many chunks, and hardly ever unless frames are released by
/// another queue than received them.
class FreeChunks {
 public:
  FreeChunks(FrameMemory& memory, size_t kept_max) : memory_(memory), kept_max_(kept_max) {
    chunks_.reserve(kept_max_ + kBatch);
  }
  FreeChunks(FreeChunks&&) = default;

  /// False: there is none.
  bool take(uint64_t& chunk) {
    if (chunks_.empty()) memory_.take(chunks_, kBatch);
    if (chunks_.empty()) return false;
    chunk = chunks_.back();
    chunks_.pop_back();
    return true;
  }
  void put(uint64_t chunk) {
    UROCE_ASSERT(FrameMemory::chunk_of(chunk) == chunk);
    if (chunks_.size() == kept_max_) memory_.give_back(chunks_, kBatch);
    chunks_.push_back(chunk);
  }

 private:
  static constexpr size_t kBatch = 256;

  FrameMemory& memory_;
  const size_t kept_max_;
  std::vector<uint64_t> chunks_;
};

}  // namespace uroce::drivers
