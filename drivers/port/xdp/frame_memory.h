#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/values/contract.h"

namespace uroce::drivers {

/// The memory that AF_XDP sockets of one port share with the kernel, in chunks of one page. A frame has one
/// chunk or, in a memory for long frames, two that adjoin: the kernel sends and receives a long frame as two
/// pieces, each of which lies in one chunk (xdp_socket.h). A frame is known by its first chunk; the kernel
/// receives into first chunks only, so that the one behind is there for the rest of a long frame.
class FrameMemory {
 public:
  static constexpr uint64_t kChunkBytes = 4096;  // the kernel takes no larger ones
  /// The kernel begins received frames there (XDP_PACKET_HEADROOM), and so do we.
  static constexpr uint64_t kHeadroom = 256;

  enum class Frames : uint8_t { kShort = 1, kLong = 2 };  // the value: chunks of each
  static constexpr uint32_t bytes_max(Frames frames) {
    return static_cast<uint32_t>(static_cast<uint64_t>(frames) * kChunkBytes - kHeadroom);
  }

  /// Throws std::bad_alloc.
  FrameMemory(size_t count, Frames frames);
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] uint32_t frame_bytes_max() const {
    return static_cast<uint32_t>(bytes_per_frame_ - kHeadroom);
  }
  /// Pieces that the longest frame is sent in.
  [[nodiscard]] uint32_t pieces_max() const { return static_cast<uint32_t>(bytes_per_frame_ / kChunkBytes); }
  /// An address is what the kernel's rings have: bytes from the base.
  [[nodiscard]] std::byte* at(uint64_t address) const { return base_ + address; }
  [[nodiscard]] uint64_t address_of(const std::byte* place) const {
    return static_cast<uint64_t>(place - base_);
  }
  /// The first chunk of the frame whose bytes lie there.
  [[nodiscard]] uint64_t chunk_of(uint64_t address) const { return address & ~(bytes_per_frame_ - 1); }
  /// From there to the end of the frame's last chunk.
  [[nodiscard]] uint64_t room_at(uint64_t address) const {
    return bytes_per_frame_ - (address & (bytes_per_frame_ - 1));
  }

  /// The frame is being sent in two pieces. Called by its owner.
  void note_second_piece(uint64_t address) { has_second_piece_[address / kLongFrameBytes] = 1; }
  /// The kernel has sent the piece that begins there. True: that was all of the frame. NICs say it of one
  /// piece after the other. Called by its owner.
  bool note_sent(uint64_t address) {
    if (has_second_piece_.empty()) return true;
    uint8_t& has_second_piece = has_second_piece_[address / kLongFrameBytes];
    const bool is_first = address % kLongFrameBytes < kChunkBytes;
    if (is_first && has_second_piece != 0) return false;
    has_second_piece = 0;
    return true;
  }

  /// Moves up to `count` free frames, as their first chunks, to the end of `to`. Any thread.
  void take(std::vector<uint64_t>& to, size_t count);
  /// Takes `count` free frames back from the end of `from`. Any thread.
  void give_back(std::vector<uint64_t>& from, size_t count);

 private:
  static constexpr uint64_t kLongFrameBytes = 2 * kChunkBytes;

  static void move(std::vector<uint64_t>& from, std::vector<uint64_t>& to, size_t count);

  const uint64_t bytes_per_frame_;
  const size_t bytes_;
  std::byte* base_;
  std::vector<uint8_t> has_second_piece_;  // by frame, while the kernel sends it; empty: no frame has
  std::mutex mutex_;
  std::vector<uint64_t> free_;
};

/// The free frames (their first chunks) that a queue has at hand, of which the one that came back last is the
/// next to go. The queue's poller. The lock is taken once for many of them, and hardly ever unless frames are
/// released by another queue than received them.
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
    UROCE_ASSERT(memory_.chunk_of(chunk) == chunk);
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
