// What the packets of a burst do, in order.
//
// Decision: after a burst of kQuietBurstMax frames at most, a queue pair is pumped only if
// QueuePair::has_work(). Stages that found nothing are not entered, and a poll that finds a completion leaves
// a partner's pollers to the next call. Test: `unit / streams` compares has_work() with the pump.
#include <optional>
#include <utility>

#include "base/values/contract.h"
#include "engine/poller/poller.h"
#include "qp/connection/packet_checks.h"
#include "qp/connection/placements.h"

namespace uroce::engine {

void Poller::dispatch() {
  const bool checked = std::exchange(ahead_, false);
  const bool quiet = receive_.burst() <= kQuietBurstMax;
  const std::span<StagedPacket> staged = receive_.staged();
  // Of the last packet that was shown, if there was nothing to be seen to before.
  const PollerQp* predicted = nullptr;
  for (size_t i = 0; i < staged.size(); ++i) {
    const wire::Packet& packet = staged[i].packet;
    PollerQp* const entry = staged[i].entry;
    if (!staged[i].prediction_hit) predicted = nullptr;
    if (!checked && !receive_.is_intact(i)) {
      if (!refuse_on_purpose(staged[i])) count(Counter::kDropIcrc);
      continue;
    }
    if (entry == nullptr) [[unlikely]] {
      staged[i].group != nullptr ? deliver_to_group(packet, *staged[i].group) : deliver_to_services(packet);
      continue;
    }
    flush_completions_if_full();
    qp::QueuePair* const queue_pair = transport_for(packet, *entry);
    if (queue_pair == nullptr) [[unlikely]]
      continue;
    if (entry->keeps_early()) [[unlikely]] {
      predicted = nullptr;
      receive_among_early(staged[i], *queue_pair);
    } else {
      if (predicted != entry) predicted = queue_pair->is_prediction_eligible(packet) ? entry : nullptr;
      const qp::Receipt receipt = predicted != nullptr ? queue_pair->receive_predicted(packet, turn_)
                                                       : queue_pair->receive(packet, turn_);
      if (receipt != qp::Receipt::kTaken) [[unlikely]] {
        buffer_out_of_order(staged[i], receipt);
        receive_early(*entry);
      }
      if (!placer_.losses().empty()) [[unlikely]]
        qp::commit_placements(turn_);
    }
    // A packet that comes alone often leaves nothing to do. Of many one does, and a look at each would cost
    // more.
    if (!quiet || entry->queue_pair.used()->has_work()) {
      activate(*entry);
    } else {
      rearm(*entry);
    }
  }
}

/// Begins the first use of a queue pair by a packet, unless that would be dropped all the same: a host that
/// may not send to a queue pair cannot have it take memory. False: the packet was counted, and is gone, also
/// if there is no memory.
bool Poller::begin_use_by_packet(const wire::Packet& packet, PollerQp& entry) {
  if (const Counter reason = entry.queue_pair.reason_to_drop(packet); reason != Counter::kCount) {
    count(reason);
    return false;
  }
  if (entry.queue_pair.use() != nullptr) return true;
  count(Counter::kDropNoMemory);
  return false;
}

namespace {

qp::RequestStatus status_of(faults::Refusal refusal) {
  switch (refusal) {
    case faults::Refusal::kRnr:
      return qp::RequestStatus::kNotReady;
    case faults::Refusal::kAccess:
      return qp::RequestStatus::kRemoteAccess;
    case faults::Refusal::kInvalid:
      return qp::RequestStatus::kInvalidRequest;
    case faults::Refusal::kOperational:
      break;
  }
  return qp::RequestStatus::kRemoteOperational;
}

}  // namespace

/// A request that came intact, but for what a fault did to keep it from being performed. False: it is none.
bool Poller::refuse_on_purpose(const StagedPacket& staged) {
  const std::optional<faults::OrderedRefusal> refusal = receive_.refusal_of(staged);
  if (!refusal || staged.entry == nullptr) return false;
  flush_completions_if_full();
  qp::QueuePair* const queue_pair = transport_for(staged.packet, *staged.entry);
  if (queue_pair == nullptr) return true;
  receive_passed(*staged.entry, staged.packet);
  if (queue_pair->refuse(staged.packet, status_of(refusal->refusal), turn_)) {
    receive_.faults()->note_refused(*refusal);
  } else if (const qp::Receipt receipt = queue_pair->receive(staged.packet, turn_);
             receipt != qp::Receipt::kTaken) {
    buffer_out_of_order(staged, receipt);
  }
  activate(*staged.entry);
  return true;
}

void Poller::buffer_out_of_order(const StagedPacket& staged, qp::Receipt receipt) {
  if (receipt == qp::Receipt::kStalled) return receive_.defer(staged);
  PollerQp& entry = *staged.entry;
  EarlyList& list = staged.packet.row->response ? entry.early_responses : entry.early_requests;
  if (early_.keep(list, staged.packet)) return count(Counter::kRxEarly);
  entry.queue_pair.used()->drop_out_of_order(staged.packet, turn_);
}

/// A packet for a queue pair that keeps some that came early: it may pass them, or be what they wait for.
void Poller::receive_among_early(const StagedPacket& staged, qp::QueuePair& queue_pair) {
  PollerQp& entry = *staged.entry;
  receive_passed(entry, staged.packet);
  if (const qp::Receipt receipt = queue_pair.receive(staged.packet, turn_); receipt != qp::Receipt::kTaken)
    buffer_out_of_order(staged, receipt);
  if (!placer_.losses().empty()) qp::commit_placements(turn_);
  receive_early(entry);
}

/// Receives what came early and is due now.
void Poller::receive_early(PollerQp& entry) {
  receive_early_requests(entry);
  receive_early_responses(entry);
}

/// Before the peer's request `packet` is shown: receives what is due, is kept, and is passed by it. What the
/// packet itself repeats is performed from what has arrived, which may ask for an ACK. A packet that comes
/// for the first time passes nothing: where packets are reordered, the peer may have sent it before it went
/// back.
void Poller::receive_passed(PollerQp& entry, const wire::Packet& packet) {
  if (!entry.queue_pair.used()->awaits_request(packet)) return;
  EarlyList& list = entry.early_requests;
  const Psn psn = packet.headers.bth.psn;
  const auto due = [&] { return entry.queue_pair.due_request(); };
  const bool ahead = due().before(psn) && psn.before(due() + EarlyPackets::kOfOneMax);
  if (ahead && early_.find(list, psn) != nullptr) {
    while (due().before(psn) && receive_early(entry, list, early_.find(list, due()))) {
    }
  }
  if (due() == psn) early_.drop(list, psn);
}

/// Receives what is due and kept, up to the first that the peer is to pass.
void Poller::receive_early_requests(PollerQp& entry) {
  EarlyList& list = entry.early_requests;
  const wire::Packet* due = nullptr;
  do {
    due = early_.find(list, entry.queue_pair.due_request());
  } while (due != nullptr && !qp::goes_back(*due) && receive_early(entry, list, due));
}

void Poller::receive_early_responses(PollerQp& entry) {
  EarlyList& list = entry.early_responses;
  while (!list.empty()) {
    while (receive_early(entry, list, early_.find(list, entry.queue_pair.due_response()))) {
    }
    // A look at what is kept, once for each hole: a peer that leaves one gains nothing by more packets.
    if (entry.queue_pair.used()->waits_for_response()) return;
    const auto first = early_.first_after(list, entry.queue_pair.due_response());
    if (!first || !entry.queue_pair.used()->reach_response(*first, turn_)) return;
  }
}

/// Receives the packet that is due, if it came early and was kept; null: it was not. False: there was none,
/// or the queue pair stalls. When the queue pair stalls, the rest is lost as on the wire: it waits behind
/// what the receive stage has deferred, or is sent again.
bool Poller::receive_early(PollerQp& entry, EarlyList& of, const wire::Packet* due) {
  if (due == nullptr) return false;
  flush_completions_if_full();
  if (entry.queue_pair.used()->receive(*due, turn_) == qp::Receipt::kStalled) {
    counters_.add(Counter::kDropStalled, EarlyPackets::count(of));
    early_.forget(of);
    return false;
  }
  early_.take(of, due->headers.bth.psn);
  if (!placer_.losses().empty()) [[unlikely]]
    qp::commit_placements(turn_);
  return true;
}

void Poller::deliver_to_services(const wire::Packet& packet) {
  if (services_ == nullptr) return count(Counter::kDropUnknownQp);
  if (const auto dropped = services_->receive(packet, turn_.now, tx_)) count(*dropped);
}

void Poller::deliver_to_group(const wire::Packet& packet, const MulticastGroup& group) {
  for (PollerQp* member : group.members) {
    if (!member->is_of(options_.index)) continue;
    flush_completions_if_full();
    qp::QueuePair* const queue_pair = transport_for(packet, *member);
    if (queue_pair == nullptr) continue;
    [[maybe_unused]] const qp::Receipt receipt = queue_pair->receive(packet, turn_);
    UROCE_ASSERT(receipt == qp::Receipt::kTaken);  // UD never stalls, and has no order
    if (!placer_.losses().empty()) [[unlikely]]
      qp::commit_placements(turn_);
    activate(*member);
  }
}

void Poller::release() {
  early_.recycle();
  if (!held_.empty()) [[unlikely]] {
    // Of the burst that was copied; what was kept last is of the next one.
    port_queue_.release(held_);
    return held_.clear();
  }
  if (const auto frames = receive_.kept_frames(); !frames.empty()) port_queue_.release(frames);
}

}  // namespace uroce::engine
