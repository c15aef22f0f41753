#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "qp/attributes/operations.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/post_rules.h"
#include "verbs/posting/requests.h"

// The hot path of posting: one lock, one publish and one doorbell per call, however long the list.

namespace uroce::verbs {

namespace {

void copy_inline(std::byte* to, const ibv_sge* segments, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    ibv_sge segment;
    std::memcpy(&segment, static_cast<const void*>(&segments[i]), sizeof segment);
    if (segment.length == 0) continue;
    std::memcpy(to, reinterpret_cast<const void*>(segment.addr), segment.length);
    to += segment.length;
  }
}

void fill_atomic(queue::SendQueue& queue, queue::SendRequest& request, const ibv_send_wr& from) {
  const auto& atomic = from.wr.atomic;
  request.remote_address = atomic.remote_addr;
  request.rkey = {atomic.rkey};
  const bool swap = request.operation == queue::SendOperation::kCompareSwap;
  queue.operands(request) = {.swap_or_add = swap ? atomic.swap : atomic.compare_add,
                             .compare = swap ? atomic.compare_add : 0};
}

/// Does what enqueue() does, for a request to bind a window of that type.
int enqueue_bind(VerbsQp& qp, const ibv_send_wr& from, unsigned type) {
  if ((from.send_flags & ~unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}) != 0)
    return EINVAL;
  if (!qp::has_operation(qp.type, queue::SendOperation::kBindWindow)) return EINVAL;
  if (from.bind_mw.mw == nullptr || bits_of(from.bind_mw.mw->type) != type) return EINVAL;
  qp::BindOperation operation;
  if (const int error = translate(qp, from.bind_mw.mw, from.bind_mw.rkey, from.bind_mw.bind_info, operation);
      error != 0)
    return error;
  queue::SendQueue& queue = qp.handle->send_queue;
  queue::SendRequest* request = queue.reserve();
  if (request == nullptr) return ENOMEM;
  request->wr_id = from.wr_id;
  request->operation = queue::SendOperation::kBindWindow;
  request->signaled = qp.signal_all || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  request->fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  queue.set_operation(*request, operation);
  from.bind_mw.mw->rkey = operation.key.value;
  return 0;
}

/// What is not described by opcode and list alone.
[[gnu::cold]] int enqueue_other(VerbsQp& qp, const ibv_send_wr& from) {
  const unsigned opcode = bits_of(from.opcode);
  if (opcode == IBV_WR_BIND_MW) return enqueue_bind(qp, from, IBV_MW_TYPE_2);
  if (opcode == IBV_WR_DRIVER1) return enqueue_driver(qp, from);
  return opcode == IBV_WR_TSO ? EOPNOTSUPP : EINVAL;
}

/// Checks the rest of a request that is more than a list of segments.
bool may_be_described(const VerbsQp& qp, const PostRule& rule, const ibv_send_wr& from, uint64_t bytes) {
  if ((from.send_flags & IBV_SEND_INLINE) != 0 && bytes > qp.limits.inline_bytes) return false;
  if (qp.type == qp::Type::kUd) return can_go_to(qp, from.wr.ud.ah, from.wr.ud.remote_qpn);
  return qp.type != qp::Type::kXrcSend || !rule.has_list || can_name_srq(from.qp_type.xrc.remote_srqn);
}

/// Writes down what such a request has behind it.
void describe_rest(const VerbsQp& qp, queue::SendRequest& request, const ibv_send_wr& from) {
  queue::SendQueue& queue = qp.handle->send_queue;
  if (qp.type == qp::Type::kUd) {
    set_address(qp, request, *from.wr.ud.ah, from.wr.ud.remote_qpn, from.wr.ud.remote_qkey);
  } else if (qp.type == qp::Type::kXrcSend && !is_local(request.operation)) {
    set_srq(qp, request, from.qp_type.xrc.remote_srqn);
  }
  if (is_atomic(request.operation)) fill_atomic(queue, request, from);
  if (request.inline_data) {
    copy_inline(queue.inline_bytes(request), from.sg_list, std::exchange(request.segments, 0));
  } else {
    copy_segments(queue.segments(request), from.sg_list, request.segments);
  }
}

/// What the requests of one call have in common.
struct Sends {
  VerbsQp& qp;
  queue::SendQueue& queue;
  const PostRules& rules;
  const unsigned flags;  // that all of them have
};

/// Writes one request behind the others of this call; 0 or errno. Nothing is taken from the queue before all
/// is checked. `kPlain`: its rule is, and it is not inline.
template <bool kPlain>
[[gnu::always_inline]] inline int enqueue_as(const Sends& sends, const PostRule& rule,
                                             const ibv_send_wr& from) {
  VerbsQp& qp = sends.qp;
  if (!kPlain && !rule.allowed) return enqueue_other(qp, from);
  const auto count =
      static_cast<uint32_t>(kPlain || rule.has_list ? from.num_sge : std::min(from.num_sge, 0));
  if (count > qp.limits.send_segments || (from.send_flags & rule.flags_refused) != 0) return EINVAL;
  const uint64_t bytes = sum(from.sg_list, count);
  if (bytes > kMessageBytesMax) return EINVAL;
  if (!kPlain && !may_be_described(qp, rule, from, bytes)) return EINVAL;

  queue::SendRequest* const request = sends.queue.reserve_used();
  if (request == nullptr) return ENOMEM;
  *request = {send_flags(from.send_flags | sends.flags)};
  request->segments = static_cast<uint16_t>(count);
  request->operation = rule.operation;
  request->wr_id = from.wr_id;
  request->remote_address = from.wr.rdma.remote_addr;
  request->rkey = {from.wr.rdma.rkey};
  request->immediate = from.imm_data;
  request->invalidate = {from.invalidate_rkey};
  request->length = static_cast<uint32_t>(bytes);
  if (kPlain) {
    copy_segments(sends.queue.segments(*request), from.sg_list, count);
  } else {
    describe_rest(qp, *request, from);
  }
  return 0;
}

/// Any request. A function of its own, for the sake of the registers of its caller.
[[gnu::noinline]] int enqueue_any(const Sends& sends, const PostRule& rule, const ibv_send_wr& from) {
  return enqueue_as<false>(sends, rule, from);
}

[[gnu::always_inline]] inline int enqueue(const Sends& sends, const ibv_send_wr& from) {
  const PostRule& rule = sends.rules.of(bits_of(from.opcode));
  if (!rule.plain || (from.send_flags & IBV_SEND_INLINE) != 0) [[unlikely]]
    return enqueue_any(sends, rule, from);
  return enqueue_as<true>(sends, rule, from);
}

struct Receives {
  VerbsQp& qp;
  queue::ReceiveQueue& queue;
};

[[gnu::always_inline]] inline int enqueue(const Receives& receives, const ibv_recv_wr& from) {
  if (static_cast<uint32_t>(from.num_sge) > receives.qp.limits.receive_segments) return EINVAL;
  queue::ReceiveRequest* const request = receives.queue.reserve_used();
  if (request == nullptr) return ENOMEM;
  describe_receive(from, *request, receives.queue.segments(*request));
  return 0;
}

/// Enqueues until the end or the first bad request, which `bad` then names; what was good before it is
/// published. `posted` says whether there was any.
template <typename Requests, typename Request>
int enqueue_list(const Requests& requests, Request* request, Request** bad, bool& posted) {
  Request* const first = request;
  int error = 0;
  for (; request != nullptr; request = request->next) {
    error = enqueue(requests, *request);
    if (error != 0) [[unlikely]] {
      *bad = request;
      break;
    }
  }
  posted = request != first;
  if (posted) requests.queue.publish();
  return error;
}

}  // namespace

uint64_t sum_of_many(const ibv_sge* segments, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) bytes += length_of(&segments[i]);
  return bytes;
}

int post_send(ibv_qp* face, ibv_send_wr* request, ibv_send_wr** bad) {
  VerbsQp& qp = object(face);
  if (!qp.owner->alive()) {
    *bad = request;
    return EIO;
  }
  bool posted = false;
  int error = 0;
  qp.handle->prepare_to_post();
  {
    const std::lock_guard guard(qp.send_lock);
    // Relaxed: the state is the caller's own knowledge; modify_qp takes the lock when it shuts the queue.
    if (qp.state.load(std::memory_order_relaxed) < IBV_QPS_RTS) {
      *bad = request;
      return EINVAL;
    }
    const Sends sends{qp, qp.handle->send_queue, post_rules(qp.type),
                      qp.signal_all ? unsigned{IBV_SEND_SIGNALED} : 0U};
    error = enqueue_list(sends, request, bad, posted);
  }
  if (posted) qp.owner->device->ring_doorbell(*qp.handle);
  return error;
}

int post_bind(ibv_qp* face, const ibv_send_wr& request) {
  VerbsQp& qp = object(face);
  if (!qp.owner->alive()) return EIO;
  {
    const std::lock_guard guard(qp.send_lock);
    // Relaxed: as in post_send.
    if (qp.state.load(std::memory_order_relaxed) < IBV_QPS_RTS) return EINVAL;
    if (const int error = enqueue_bind(qp, request, IBV_MW_TYPE_1); error != 0) return error;
    qp.handle->send_queue.publish();
  }
  qp.owner->device->ring_doorbell(*qp.handle);
  return 0;
}

int post_recv(ibv_qp* face, ibv_recv_wr* request, ibv_recv_wr** bad) {
  VerbsQp& qp = object(face);
  if (!qp.owner->alive()) {
    *bad = request;
    return EIO;
  }
  bool posted = false;
  int error = EINVAL;
  qp.receive_lock.lock();
  // Relaxed: as in post_send.
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_RESET || qp.face().recv_cq == nullptr ||
      qp.face().srq != nullptr) {
    *bad = request;
  } else {
    error = enqueue_list(Receives{qp, qp.handle->receive_queue}, request, bad, posted);
  }
  // In the error state the poller does not look at the queue by itself. So the look at the state must not
  // come before the publication: then either the poller sees the requests when it flushes, or we see its
  // state.
  qp.receive_lock.unlock_in_order();
  if (posted && qp.handle->in_error.load(std::memory_order_seq_cst))
    qp.owner->device->ring_doorbell(*qp.handle);
  return error;
}

}  // namespace uroce::verbs
