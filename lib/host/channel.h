#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "host/own_memory.h"

namespace uroce::host {

/// Two rings between this process and another one, each in the memory of the process that sends by it. The
/// other end may write anything into its memory at any time: the channel reads each word of it once, and
/// bounds it by what this end knows. One thread at a time; nothing blocks.
class Channel {
 public:
  /// The other end's memory, mapped to read, which outlives the channel.
  struct FarEnd {
    const std::byte* memory = nullptr;
    MemoryShape shape;
    uint32_t channel = 0;  // its number of this channel
    const Bell* bell = nullptr;
  };
  /// A received frame, in the far end's memory: what it holds may change at any moment, so it is to be copied
  /// before it is looked at.
  struct Frame {
    const std::byte* data;
    uint32_t length;  // kFrameBytesMin to kFrameBytes
    bool has_icrc;
    BlockCode sender;  // as the far end says
  };

  /// `number` is a channel of `own` that no object uses; its ring starts anew.
  Channel(OwnMemory& own, uint32_t number, const FarEnd& far_end);
  /// Frames that the far end has not taken are free again.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The far end broke the format: nothing more is read of it, and what is sent to it is dropped by the
  /// caller.
  [[nodiscard]] bool broken() const { return broken_; }

  // Sending.

  /// Whether `count` more frames may be sent now. A far end that takes nothing is given as many frames as are
  /// free: then one of several keeps half of them at most, and what is left is enough for all others.
  [[nodiscard]] bool has_room(uint32_t count = 1) {
    const auto has = [&] { return in_flight() + count <= std::min(kRingFrames, own_.free_count()); };
    if (has()) [[likely]]
      return true;
    reclaim();
    return has();
  }
  /// The frame, which `own` gave out, is the channel's until the far end has taken it. Only with has_room().
  /// `sender`: of a frame that this end passes on.
  void send(uint32_t frame, uint32_t length, bool has_icrc, BlockCode sender = {}) {
    UROCE_ASSERT(in_flight() < kRingFrames && length >= kFrameBytesMin && length <= kFrameBytes);
    const FrameDescriptor descriptor{.frame = static_cast<uint16_t>(frame),
                                     .length = static_cast<uint16_t>(length),
                                     .has_icrc = has_icrc,
                                     .sender = sender,
                                     .sequence = FrameDescriptor::sequence_at(sent_)};
    // Pairs with the acquire in receive() of the far end: the frame's bytes were written before.
    ring_[sent_ % kRingFrames].store(descriptor.pack(), std::memory_order_release);
    ++sent_;
  }
  /// Frames that the far end has taken are free again. True: there were some.
  bool reclaim();
  /// Frames that were sent and not yet taken, as far as is known.
  [[nodiscard]] uint32_t in_flight() const { return sent_ - reclaimed_; }
  /// After send(): the far end sleeps, and is to be woken by its bell.
  [[nodiscard]] bool far_end_sleeps() const;
  [[nodiscard]] const Bell& far_bell() const { return *far_bell_; }

  // Receiving.

  /// Whether there is a frame. It may be none that can be received.
  [[nodiscard]] bool pending() const {
    const uint64_t word =
        far_ring_[received_ % kRingFrames].load(std::memory_order_acquire);  // pairs with send()
    return FrameDescriptor::unpack(word).sequence == FrameDescriptor::sequence_at(received_) && !broken_;
  }
  /// The next frame, without data when there is none. It is the far end's again with release().
  [[nodiscard]] Frame receive();
  /// All that was received is given back to the far end.
  void release() {
    // Pairs with the acquire in reclaim() of the far end: what was received has been copied.
    own_consumed_.count.store(received_, std::memory_order_release);
  }

 private:
  OwnMemory& own_;
  MemoryLayout::Ring* const ring_;
  Consumed& own_consumed_;
  const MemoryLayout far_layout_;
  const std::byte* const far_memory_;
  const MemoryLayout::Ring* const far_ring_;
  const Consumed& far_consumed_;
  const Bell* const far_bell_;

  uint32_t sent_ = 0;
  uint32_t reclaimed_ = 0;
  uint32_t received_ = 0;
  bool broken_ = false;
};

}  // namespace uroce::host
