// The states of a queue pair: how it enters them, and what it gives back, reports or forgets then.
//
// Decision: MigReq is 1 on RC, UC and XRC (`device.mig_req`), 0 on UD. Adapters set it without path
// migration. Cost: a key for peers that expect rxe's 0.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/process/probe.h"
#include "base/values/contract.h"
#include "qp/connection/completion_report.h"
#include "qp/queue_pair/queue_pair.h"
#include "qp/requester/local_operation.h"
#include "wire/ecn.h"

namespace uroce::qp {

namespace {

/// There are requesters, Linux's for one, that round what they were told up to a power of two.
uint8_t resources_for(uint8_t responses_max, ReadLimits limits) {
  return responses_max == 0 ? uint8_t{0}
                            : static_cast<uint8_t>(std::min<uint32_t>(std::bit_ceil(unsigned{responses_max}),
                                                                      limits.answered));
}

/// The number of the completion queue that is full, of the send side's first.
uint32_t full_queue_of(const Connection& connection) {
  for (const queue::CompletionQueue* const queue :
       {connection.send_completions, connection.receive_completions})
    if (queue != nullptr && queue->overrun()) return queue->options().number;
  return 0;
}

}  // namespace

int QueuePair::modify(const Attributes& attributes, AttributeMask mask, Turn& turn) {
  const State from = state();
  const State to = mask.any(kMaskState) ? attributes.state : from;
  if (mask.any(kMaskCurrentState) && attributes.current_state != from) return EINVAL;
  if (const int error = check_transition(send_.connection.type, from, to, mask); error != 0) return error;
  if (const int error = check_values(attributes, mask, send_.connection.transport.reads,
                                     send_.connection.transport.partition_keys.size());
      error != 0)
    return error;
  if (!provide_for(attributes, mask)) return ENOMEM;
  if (from == State::kRtr && to == State::kRts && !send_.connection.congestion.choose(congestion_options()))
    return ENOMEM;

  apply(attributes, mask, send_.connection.attributes);
  Attributes& current = send_.connection.attributes;
  if (mask.any(kMaskPkeyIndex))
    send_.connection.partition_key = send_.connection.transport.partition_keys[current.pkey_index];
  if (mask.any(kMaskAv | kMaskDestQpn | kMaskPkeyIndex)) make_frame();
  if (to == State::kSqd && from != State::kSqd)
    current.notify_drained = mask.any(kMaskEnSqdAsyncNotify) && attributes.notify_drained;
  if (mask.any(kMaskMaxDestRdAtomic))
    send_.connection.resources = resources_for(current.max_dest_rd_atomic, send_.connection.transport.reads);
  if (mask.any(kMaskPathMtu)) send_.connection.mtu = path_mtu_bytes(current.path_mtu);
  if (to != from || to == State::kReset) enter(to, turn);
  UROCE_ASSERT(state() == to);
  note_admission();
  return 0;
}

/// For the READs and atomics that may be under way, ours and the peer's. False: there is no memory.
bool QueuePair::provide_for(const Attributes& attributes, AttributeMask mask) {
  const uint32_t resources = resources_for(attributes.max_dest_rd_atomic, send_.connection.transport.reads);
  return (!mask.any(kMaskMaxRdAtomic) || send_.window.provide(attributes.max_rd_atomic)) &&
         (!mask.any(kMaskMaxDestRdAtomic) || responder().provide(resources));
}

bool QueuePair::restore(const Attributes& attributes) {
  UROCE_ASSERT(state() == State::kReset && attributes.state <= State::kRts);
  Connection& connection = send_.connection;
  connection.attributes = attributes;
  const State to = attributes.state;
  if (to == State::kReset) return true;
  if (!provide_for(attributes, kMaskMaxRdAtomic | kMaskMaxDestRdAtomic)) return false;
  if (to == State::kRts && !connection.congestion.choose(congestion_options())) return false;
  connection.partition_key = connection.transport.partition_keys[attributes.pkey_index];
  connection.resources = resources_for(attributes.max_dest_rd_atomic, connection.transport.reads);
  make_frame();
  if (to >= State::kRtr) {
    if (connection.connected) connection.mtu = path_mtu_bytes(attributes.path_mtu);
    responder().reset(attributes.rq_psn);
  }
  if (to == State::kRts) {
    reset_sends(attributes.sq_psn);
    begin_congestion();
  }
  note_admission();
  return true;
}

/// What all frames to the peer begin with.
void QueuePair::make_frame() {
  const Attributes& current = send_.connection.attributes;
  wire::Path path = current.path;
  // The network marks only what says that it heeds marks. A program may have said so itself.
  const bool heeds = row_of(send_.connection.control).needs_ecn;
  if (heeds && send_.connection.connected && wire::ecn_of(path.traffic_class) == 0)
    path.traffic_class |= wire::kEct0;
  path.udp_source_port = wire::udp_source_port(send_.connection.transport.source_ports, path.flow_label,
                                               number(), current.destination);
  send_.connection.frame = wire::FrameTemplate(path);
  send_.connection.frame.set_peer(send_.connection.partition_key, current.destination,
                                  send_.connection.transport.mig_req);
}

/// For those that trace it, and those that log it.
void QueuePair::note_state(State from, State to, Failure failure, const Turn& turn) {
  UROCE_PROBE3(qp_state, number().value, static_cast<int>(from), static_cast<int>(to));
  const MemoryKey key = std::exchange(send_.connection.refused_key, MemoryKey{});
  if (turn.notices == nullptr) return;
  turn.notices->note(
      {.kind = Notice::Kind::kState,
       .from = from,
       .to = to,
       .failure = failure,
       .queue_pair = number(),
       .peer = send_.connection.attributes.destination,
       .completion_queue = failure == Failure::kCompletionQueueFull ? full_queue_of(send_.connection) : 0,
       .key = key,
       .address = send_.connection.attributes.path.destination});
}

void QueuePair::enter(State to, Turn& turn) {
  const State from = state();
  // A failure of this turn may not have shown yet.
  const bool failed = to == State::kErr && send_.connection.broken;
  note_state(from, to, failed ? send_.connection.failure : Failure::kNone, turn);
  send_.connection.attributes.state = to;
  send_.connection.attributes.draining = to == State::kSqd;
  switch (to) {
    case State::kReset:
      return reset();
    case State::kRtr:
      established_ = false;
      return responder().reset(send_.connection.attributes.rq_psn);
    case State::kRts:
      send_.connection.sends_broken = false;
      if (from != State::kRtr) return;
      reset_sends(send_.connection.attributes.sq_psn);
      begin_congestion();
      return;  // from SQD the send side goes on where it was; in SQE all of it was flushed
    case State::kErr:
      responder().drop_answers();
      return end(turn);
    case State::kSqd:
      return note_drained();
    case State::kInit:
    case State::kSqe:
      return;
  }
}

void QueuePair::reset_sends(Psn first) {
  send_.window.reset(first);
  requester_.reset();
  completer_.reset();
  send_.recovery.reset();
}

/// The device's options, but for the algorithm. Without answers there are no round trips, and without a
/// connection no CNPs.
CongestionOptions QueuePair::congestion_options() const {
  CongestionOptions options = send_.connection.transport.congestion;
  options.control = send_.connection.control;
  const bool lacks_answers = !send_.connection.reliable && row_of(options.control).needs_answers;
  if (lacks_answers || !send_.connection.connected) options.control = CongestionControl::kNone;
  return options;
}

void QueuePair::begin_congestion() {
  send_.connection.congestion.path_changed(send_.connection.mtu, send_.recovery.path_seen());
}

CongestionState QueuePair::congestion() const {
  const CongestionController& controller = send_.connection.congestion;
  const RttEstimator& round_trip = send_.recovery.rtt();
  return {.control = send_.connection.control,
          .window = send_.connection.reliable ? send_.recovery.window_within(controller.window()) : 0,
          .mbps = controller.mbps(),
          .cnps = controller.cnps(),
          .smoothed_ns = round_trip.smoothed().ns,
          .least_ns = round_trip.least().ns};
}

int QueuePair::set_congestion_control(CongestionControl control) {
  if (!send_.connection.connected) return EINVAL;
  if (row_of(control).needs_answers && !send_.connection.reliable) return EOPNOTSUPP;
  const CongestionControl before = std::exchange(send_.connection.control, control);
  if (state() < State::kRtr || state() > State::kSqe) return 0;
  if (state() != State::kRtr) {
    if (!send_.connection.congestion.choose(congestion_options())) {
      send_.connection.control = before;
      return ENOMEM;
    }
    begin_congestion();
  }
  make_frame();
  return 0;
}

/// Everything is forgotten, without completions.
void QueuePair::reset() {
  drop_sends();
  send_.connection.waiter = Waiter::kNone;
  drop_receives();
  send_.connection.attributes = {};
  send_.connection.broken = send_.connection.sends_broken = false;
  send_.connection.congestion.reset();
  reset_sends(Psn());
  notification_.reset();
  responder().reset(Psn());
}

void QueuePair::drop_receives() {
  for (uint32_t left = send_.connection.receives.waiting(); left > 0; --left)
    send_.connection.receives.retire();
}

void QueuePair::drop_sends() {
  queue::SendQueue& sends = *send_.connection.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    if (!send_.window.has_started(sends.retired())) drop_operation(sends, sends.at(sends.retired()));
  }
}

void QueuePair::flush_sends(Turn& turn) {
  queue::SendQueue& sends = *send_.connection.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    queue::SendRequest& request = sends.at(sends.retired());
    report_send(send_.connection, turn, request, queue::CompletionStatus::kFlushed);
    if (!send_.window.has_started(sends.retired())) drop_operation(sends, request);
  }
}

/// Everything outstanding completes as flushed.
void QueuePair::flush(Turn& turn) {
  send_.connection.waiter = Waiter::kNone;
  flush_sends(turn);
  for (uint32_t left = send_.connection.receives.waiting(); left > 0; --left) {
    report_receive(
        send_.connection, turn,
        {.opcode = queue::CompletionOpcode::kReceive, .status = queue::CompletionStatus::kFlushed});
  }
}

/// In SQD: whether nothing is under way any more.
void QueuePair::note_drained() {
  Attributes& current = send_.connection.attributes;
  if (!current.draining || !send_.window.idle() || send_.connection.stalled) return;
  current.draining = false;
  if (current.notify_drained) send_.connection.raise(Event::kSendQueueDrained);
}

void QueuePair::change_state(Turn& turn) {
  UROCE_ASSERT(!send_.connection.sends_broken || !send_.connection.reliable);
  if (send_.connection.sends_broken && state() == State::kRts) {
    note_state(State::kRts, State::kSqe, send_.connection.failure, turn);
    send_.connection.attributes.state = State::kSqe;
    flush_sends(turn);
    reset_sends(send_.window.sent_end());
  }
  if (!send_.connection.broken) {
    note_drained();
  } else if (state() != State::kErr) {
    note_state(state(), State::kErr, send_.connection.failure, turn);
    send_.connection.attributes.state = State::kErr;
    end(turn);
  }
  note_admission();
}

/// The error state was entered.
void QueuePair::end(Turn& turn) {
  UROCE_ASSERT(state() == State::kErr);
  send_.connection.attributes.draining = false;
  send_.connection.acks.ends();
  send_.recovery.reset();
  flush(turn);
  if (send_.connection.receives.are_shared()) send_.connection.raise(Event::kLastReceive);
  // The queue pair's own queue may have been posted to meanwhile: the next pump flushes that.
  UROCE_ASSERT(!send_.connection.receives.are_shared() || send_.connection.receives.waiting() == 0);
}

/// After whatever decides about it: what receive_slow_path() would find out for each packet.
void QueuePair::note_admission() {
  admitted_ = 0;
  const bool may_receive = state() >= State::kRtr && state() <= State::kSqe;
  const bool waits = state() == State::kRtr && !established_;
  if (!may_receive || waits || !send_.connection.connected || send_.connection.attributes.draining) return;
  admitted_ = 1u << wire::traffic_of(send_.connection.service, false);
  if (state() != State::kRtr) admitted_ |= 1u << wire::traffic_of(send_.connection.service, true);
}

void QueuePair::overflow_completions(Turn& turn) {
  for (queue::CompletionQueue* const queue :
       {send_.connection.send_completions, send_.connection.receive_completions})
    if (queue != nullptr) queue->order_overrun();
  overran(send_.connection, turn);
}

}  // namespace uroce::qp
