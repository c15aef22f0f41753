// The states of a queue pair: how it enters them, and what it gives back, reports or forgets then.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "base/probe.h"
#include "qp/completion_report.h"
#include "qp/local_operation.h"
#include "qp/queue_pair.h"

namespace uroce::qp {

namespace {

/// There are requesters, Linux's for one, that round what they were told up to a power of two.
uint32_t resources_for(uint32_t responses_max, ReadLimits limits) {
  return responses_max == 0 ? 0 : std::min<uint32_t>(std::bit_ceil(responses_max), limits.answered);
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
  if (const int error = check_transition(connection_.type, from, to, mask); error != 0) return error;
  if (const int error = check_values(attributes, mask, connection_.transport.reads,
                                     connection_.transport.partition_keys.size());
      error != 0)
    return error;
  if (!provide_for(attributes, mask)) return ENOMEM;
  if (from == State::kRtr && to == State::kRts && !connection_.flow_limit.provide(congestion_options()))
    return ENOMEM;

  apply(attributes, mask, connection_.attributes);
  Attributes& current = connection_.attributes;
  if (mask.any(kMaskPkeyIndex))
    connection_.partition_key = connection_.transport.partition_keys[current.pkey_index];
  if (mask.any(kMaskAv | kMaskDestQpn | kMaskPkeyIndex)) make_frame();
  if (to == State::kSqd && from != State::kSqd)
    current.notify_drained = mask.any(kMaskEnSqdAsyncNotify) && attributes.notify_drained;
  if (mask.any(kMaskMaxDestRdAtomic))
    connection_.resources = resources_for(current.max_dest_rd_atomic, connection_.transport.reads);
  if (mask.any(kMaskPathMtu)) connection_.mtu = path_mtu_bytes(current.path_mtu);
  if (to != from || to == State::kReset) enter(to, turn);
  UROCE_ASSERT(state() == to);
  note_admission();
  return 0;
}

/// For the READs and atomics that may be under way, ours and the peer's. False: there is no memory.
bool QueuePair::provide_for(const Attributes& attributes, AttributeMask mask) {
  const uint32_t resources = resources_for(attributes.max_dest_rd_atomic, connection_.transport.reads);
  return (!mask.any(kMaskMaxRdAtomic) || window_.provide(attributes.max_rd_atomic)) &&
         (!mask.any(kMaskMaxDestRdAtomic) || responder_->provide(resources));
}

/// What all frames to the peer begin with.
void QueuePair::make_frame() {
  const Attributes& current = connection_.attributes;
  wire::Path path = current.path;
  // The network marks only what says that it heeds marks. A program may have said so itself.
  constexpr uint8_t kEct0 = 2;
  const bool heeds = connection_.control == CongestionControl::kDcqcn;
  if (heeds && connection_.connected && (path.traffic_class & 3) == 0) path.traffic_class |= kEct0;
  path.udp_source_port = wire::udp_source_port(connection_.transport.source_ports, path.flow_label, number(),
                                               current.destination);
  connection_.frame = wire::FrameTemplate(path);
  connection_.frame.set_peer(connection_.partition_key, current.destination);
}

/// For those that trace it, and those that log it.
void QueuePair::note_state(State from, State to, Failure failure, const Turn& turn) {
  UROCE_PROBE3(qp_state, number().value, static_cast<int>(from), static_cast<int>(to));
  const MemoryKey key = std::exchange(connection_.refused_key, MemoryKey{});
  if (turn.notices == nullptr) return;
  turn.notices->note(
      {.kind = Notice::Kind::kState,
       .from = from,
       .to = to,
       .failure = failure,
       .queue_pair = number(),
       .peer = connection_.attributes.destination,
       .completion_queue = failure == Failure::kCompletionQueueFull ? full_queue_of(connection_) : 0,
       .key = key,
       .address = connection_.attributes.path.destination});
}

void QueuePair::enter(State to, Turn& turn) {
  const State from = state();
  // A failure of this turn may not have shown yet.
  const bool failed = to == State::kErr && connection_.broken;
  note_state(from, to, failed ? connection_.failure : Failure::kNone, turn);
  connection_.attributes.state = to;
  connection_.attributes.draining = to == State::kSqd;
  switch (to) {
    case State::kReset:
      return reset();
    case State::kRtr:
      established_ = false;
      return responder_->reset(connection_.attributes.rq_psn);
    case State::kRts:
      connection_.sends_broken = false;
      if (from != State::kRtr) return;
      reset_sends(connection_.attributes.sq_psn);
      begin_flow_limit();
      return;  // from SQD the send side goes on where it was; in SQE all of it was flushed
    case State::kErr:
      responder_->drop_answers();
      return end(turn);
    case State::kSqd:
      return note_drained();
    case State::kInit:
    case State::kSqe:
      return;
  }
}

void QueuePair::reset_sends(Psn first) {
  window_.reset(first);
  requester_.reset();
  completer_.reset();
  retransmission_.reset();
}

/// Those of the device, but for the algorithm. Without answers there are no round trips, by which Swift goes,
/// and without a connection no CNPs.
CongestionOptions QueuePair::congestion_options() const {
  CongestionOptions options = connection_.transport.congestion;
  options.control = connection_.control;
  const bool lacks_answers = !connection_.reliable && options.control == CongestionControl::kSwift;
  if (lacks_answers || !connection_.connected) options.control = CongestionControl::kNone;
  return options;
}

void QueuePair::begin_flow_limit() {
  connection_.flow_limit.begin(congestion_options(), connection_.mtu, retransmission_.path_seen());
}

CongestionState QueuePair::congestion() const {
  const FlowLimit& limit = connection_.flow_limit;
  const RoundTrip& round_trip = retransmission_.round_trip();
  return {.control = connection_.control,
          .window = connection_.reliable ? retransmission_.window_within(limit.window()) : 0,
          .mbps = limit.rate(),
          .cnps = limit.cnps(),
          .smoothed_ns = round_trip.smoothed().ns,
          .least_ns = round_trip.least().ns};
}

int QueuePair::set_congestion_control(CongestionControl control) {
  if (!connection_.connected) return EINVAL;
  if (control == CongestionControl::kSwift && !connection_.reliable) return EOPNOTSUPP;
  const CongestionControl before = std::exchange(connection_.control, control);
  if (state() < State::kRtr || state() > State::kSqe) return 0;
  if (state() != State::kRtr) {
    if (!connection_.flow_limit.provide(congestion_options())) {
      connection_.control = before;
      return ENOMEM;
    }
    begin_flow_limit();
  }
  make_frame();
  return 0;
}

/// Everything is forgotten, without completions.
void QueuePair::reset() {
  drop_sends();
  connection_.waiter = Waiter::kNone;
  drop_receives();
  connection_.attributes = {};
  connection_.broken = connection_.sends_broken = false;
  connection_.flow_limit.reset();
  reset_sends(Psn());
  notification_.reset();
  responder_->reset(Psn());
}

void QueuePair::drop_receives() {
  for (uint32_t left = connection_.receives.waiting(); left > 0; --left) connection_.receives.retire();
}

void QueuePair::drop_sends() {
  queue::SendQueue& sends = *connection_.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    if (!window_.has_started(sends.retired())) drop_operation(sends, sends.at(sends.retired()));
  }
}

void QueuePair::flush_sends(Turn& turn) {
  queue::SendQueue& sends = *connection_.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire()) {
    queue::SendRequest& request = sends.at(sends.retired());
    report_send(connection_, turn, request, queue::CompletionStatus::kFlushed);
    if (!window_.has_started(sends.retired())) drop_operation(sends, request);
  }
}

/// Everything outstanding completes as flushed.
void QueuePair::flush(Turn& turn) {
  connection_.waiter = Waiter::kNone;
  flush_sends(turn);
  for (uint32_t left = connection_.receives.waiting(); left > 0; --left) {
    report_receive(
        connection_, turn,
        {.opcode = queue::CompletionOpcode::kReceive, .status = queue::CompletionStatus::kFlushed});
  }
}

/// In SQD: whether nothing is under way any more.
void QueuePair::note_drained() {
  Attributes& current = connection_.attributes;
  if (!current.draining || !window_.idle() || connection_.stalled) return;
  current.draining = false;
  if (current.notify_drained) connection_.raise(Event::kSendQueueDrained);
}

void QueuePair::change_state(Turn& turn) {
  UROCE_ASSERT(!connection_.sends_broken || !connection_.reliable);
  if (connection_.sends_broken && state() == State::kRts) {
    note_state(State::kRts, State::kSqe, connection_.failure, turn);
    connection_.attributes.state = State::kSqe;
    flush_sends(turn);
    reset_sends(window_.sent_end());
  }
  if (!connection_.broken) {
    note_drained();
  } else if (state() != State::kErr) {
    note_state(state(), State::kErr, connection_.failure, turn);
    connection_.attributes.state = State::kErr;
    end(turn);
  }
  note_admission();
}

/// The error state was entered.
void QueuePair::end(Turn& turn) {
  UROCE_ASSERT(state() == State::kErr);
  connection_.attributes.draining = false;
  retransmission_.reset();
  flush(turn);
  if (connection_.receives.are_shared()) connection_.raise(Event::kLastReceive);
  // The queue pair's own queue may have been posted to meanwhile: the next pump flushes that.
  UROCE_ASSERT(!connection_.receives.are_shared() || connection_.receives.waiting() == 0);
}

/// After whatever decides about it: what receive_slow_path() would find out for each packet.
void QueuePair::note_admission() {
  admitted_ = 0;
  const bool may_receive = state() >= State::kRtr && state() <= State::kSqe;
  const bool waits = state() == State::kRtr && !established_;
  if (!may_receive || waits || !connection_.connected || connection_.attributes.draining) return;
  admitted_ = 1u << wire::traffic_of(connection_.service, false);
  if (state() != State::kRtr) admitted_ |= 1u << wire::traffic_of(connection_.service, true);
}

void QueuePair::overflow_completions(Turn& turn) {
  for (queue::CompletionQueue* const queue : {connection_.send_completions, connection_.receive_completions})
    if (queue != nullptr) queue->order_overrun();
  overran(connection_, turn);
}

}  // namespace uroce::qp
