// What the packets of a burst do, in order.
#include <utility>

#include "base/contract.h"
#include "engine/poller/poller.h"
#include "qp/placements.h"

namespace uroce::engine {

void Poller::dispatch() {
  const bool checked = std::exchange(ahead_, false);
  const bool quiet = receive_.burst() <= kQuietBurstMax;
  const std::span<StagedPacket> staged = receive_.staged();
  for (size_t i = 0; i < staged.size(); ++i) {
    const wire::Packet& packet = staged[i].packet;
    QueuePairEntry* const entry = staged[i].entry;
    if (!checked && !receive_.is_intact(i)) {
      count(Counter::kDropIcrc);
      continue;
    }
    if (entry == nullptr) [[unlikely]] {
      staged[i].group != nullptr ? deliver_to_group(packet, *staged[i].group) : deliver_to_services(packet);
      continue;
    }
    flush_completions_if_full();
    if (!entry->queue_pair.receive(packet, turn_)) [[unlikely]]
      receive_.defer(staged[i]);
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    // A packet that comes alone often leaves nothing to do. Of many one does, and a look at each would cost
    // more.
    if (!quiet || entry->queue_pair.has_work()) {
      activate(*entry);
    } else {
      rearm(*entry);
    }
  }
}

void Poller::deliver_to_services(const wire::Packet& packet) {
  if (services_ == nullptr) return count(Counter::kDropUnknownQp);
  if (const auto dropped = services_->receive(packet, turn_.now, tx_)) count(*dropped);
}

void Poller::deliver_to_group(const wire::Packet& packet, const MulticastGroup& group) {
  for (QueuePairEntry* member : group.members) {
    if (&member->poller != this) continue;
    flush_completions_if_full();
    [[maybe_unused]] const bool taken = member->queue_pair.receive(packet, turn_);
    UROCE_ASSERT(taken);  // UD never stalls
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*member);
  }
}

void Poller::release() {
  if (!held_.empty()) [[unlikely]] {
    // Of the burst that was copied; what was kept last is of the next one.
    port_queue_.release(held_);
    return held_.clear();
  }
  if (const auto frames = receive_.kept_frames(); !frames.empty()) port_queue_.release(frames);
}

}  // namespace uroce::engine
