// Decision: a descriptor carries its sequence number, instead of an index beside the ring. The receiver reads
// one foreign cache line less.
//
// Decision: a descriptor says which program has sent the frame, and only the service's word counts, because
// it checks senders. Cost: a sequence number has 21 bits; the ring needs 10.
#include "host/channel.h"

namespace uroce::host {

Channel::Channel(OwnMemory& own, uint32_t number, const FarEnd& far_end)
    : own_(own),
      ring_(own.layout().ring(own.memory(), number)),
      own_consumed_(own.layout().consumed(own.memory(), number)),
      far_layout_(far_end.shape),
      far_memory_(far_end.memory),
      far_ring_(far_layout_.ring(far_end.memory, far_end.channel)),
      far_consumed_(far_layout_.consumed(far_end.memory, far_end.channel)),
      far_bell_(far_end.bell) {
  UROCE_ASSERT(number < own.layout().shape().channels && far_end.channel < far_end.shape.channels &&
               far_bell_ != nullptr);
  // Relaxed: the far end hears of the channel by a message.
  for (uint32_t i = 0; i < kRingFrames; ++i) ring_[i].store(0, std::memory_order_relaxed);
  own_consumed_.count.store(0, std::memory_order_relaxed);
}

Channel::~Channel() {
  for (; reclaimed_ != sent_; ++reclaimed_)
    own_.put(FrameDescriptor::unpack(ring_[reclaimed_ % kRingFrames].load(std::memory_order_relaxed)).frame);
}

bool Channel::reclaim() {
  const uint32_t consumed = far_consumed_.count.load(std::memory_order_acquire);  // pairs with release()
  const uint32_t count = consumed - reclaimed_;
  if (count == 0) return false;
  if (count > in_flight()) {
    broken_ = true;
    return false;
  }
  // Relaxed: no other process writes this ring.
  for (; reclaimed_ != consumed; ++reclaimed_)
    own_.put(FrameDescriptor::unpack(ring_[reclaimed_ % kRingFrames].load(std::memory_order_relaxed)).frame);
  return true;
}

bool Channel::far_end_sleeps() const {
  // Between the descriptor's store and this load, so that either this end sees the far end asleep, or the far
  // end, which looks at its rings after it has said that it sleeps, sees the descriptor.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return far_bell_->word.load(std::memory_order_relaxed) == Bell::kAsleep;
}

Channel::Frame Channel::receive() {
  constexpr Frame kNone{nullptr, 0, false, {}};
  if (broken_) return kNone;
  // Pairs with the release in send() of the far end.
  const uint64_t word = far_ring_[received_ % kRingFrames].load(std::memory_order_acquire);
  const FrameDescriptor descriptor = FrameDescriptor::unpack(word);
  if (descriptor.sequence != FrameDescriptor::sequence_at(received_)) return kNone;
  const bool sound = descriptor.frame < far_layout_.shape().frames && descriptor.length >= kFrameBytesMin &&
                     descriptor.length <= kFrameBytes;
  if (!sound) {
    broken_ = true;
    return kNone;
  }
  ++received_;
  return {far_layout_.frame(far_memory_, descriptor.frame), descriptor.length, descriptor.has_icrc,
          descriptor.sender};
}

}  // namespace uroce::host
