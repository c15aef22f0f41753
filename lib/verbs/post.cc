#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "qp/operations.h"
#include "verbs/objects.h"

// The hot path of posting: one lock, one publish and one doorbell per call, however long the list.

namespace uroce::verbs {

namespace {

constexpr unsigned int kFlagsKnown =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// Bytes of a list; more than a message can have when it is too long.
uint64_t sum(const ibv_sge* segments, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) bytes += segments[i].length;
  return bytes;
}

/// 0, or EINVAL for a number that is no operation and EOPNOTSUPP for one that is not there.
int translate(ibv_wr_opcode opcode, queue::SendOperation& to) {
  switch (opcode) {
    case IBV_WR_SEND:
      to = queue::SendOperation::kSend;
      return 0;
    case IBV_WR_SEND_WITH_IMM:
      to = queue::SendOperation::kSendImm;
      return 0;
    case IBV_WR_RDMA_WRITE:
      to = queue::SendOperation::kWrite;
      return 0;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      to = queue::SendOperation::kWriteImm;
      return 0;
    case IBV_WR_RDMA_READ:
      to = queue::SendOperation::kRead;
      return 0;
    case IBV_WR_SEND_WITH_INV:
      to = queue::SendOperation::kSendInvalidate;
      return 0;
    case IBV_WR_LOCAL_INV:
      to = queue::SendOperation::kLocalInvalidate;
      return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      to = queue::SendOperation::kCompareSwap;
      return 0;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to = queue::SendOperation::kFetchAdd;
      return 0;
    case IBV_WR_ATOMIC_WRITE:
      to = queue::SendOperation::kAtomicWrite;
      return 0;
    case IBV_WR_BIND_MW:  // enqueue_bind()
    case IBV_WR_TSO:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

void copy_inline(std::byte* to, const ibv_sge* segments, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (segments[i].length == 0) continue;
    std::memcpy(to, reinterpret_cast<const void*>(segments[i].addr), segments[i].length);
    to += segments[i].length;
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

/// As enqueue(), of a request to bind a window of that type.
int enqueue_bind(VerbsQp& qp, const ibv_send_wr& from, ibv_mw_type type) {
  if ((from.send_flags & ~unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}) != 0)
    return EINVAL;
  if (!qp::has_operation(qp.type, queue::SendOperation::kBindWindow)) return EINVAL;
  if (from.bind_mw.mw == nullptr || from.bind_mw.mw->type != type) return EINVAL;
  qp::BindOperation operation;
  if (const int error = translate(qp, from.bind_mw.mw, from.bind_mw.rkey, from.bind_mw.bind_info, operation);
      error != 0)
    return error;
  queue::SendQueue& queue = *qp.handle->send_queue;
  queue::SendRequest* request = queue.reserve();
  if (request == nullptr) return ENOMEM;
  request->wr_id = from.wr_id;
  request->operation = queue::SendOperation::kBindWindow;
  request->signaled = qp.signal_all || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  request->fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  queue.set_operation(*request, operation);
  return 0;
}

/// Writes one request behind the others of this call; 0 or errno. Nothing is taken from the queue before all
/// is checked.
int enqueue(VerbsQp& qp, const ibv_send_wr& from) {
  if (from.opcode == IBV_WR_BIND_MW) return enqueue_bind(qp, from, IBV_MW_TYPE_2);
  queue::SendOperation operation{};
  if (const int error = translate(from.opcode, operation); error != 0) return error;
  if (!qp::has_operation(qp.type, operation)) return EINVAL;
  const bool local = is_local(operation);  // and has no data
  const uint32_t count = local ? 0 : static_cast<uint32_t>(from.num_sge);
  if (from.num_sge < 0 || count > qp.caps.max_send_sge || (from.send_flags & ~kFlagsKnown) != 0)
    return EINVAL;
  const uint64_t bytes = sum(from.sg_list, count);
  const bool inline_data = (from.send_flags & IBV_SEND_INLINE) != 0;
  if (bytes > kMessageBytesMax) return EINVAL;
  if (inline_data && (bytes > qp.caps.max_inline_data || has_result(operation) || local)) return EINVAL;
  if (qp.type == qp::Type::kUd && !can_go_to(qp, from.wr.ud.ah, from.wr.ud.remote_qpn)) return EINVAL;
  const bool names_srq = qp.type == qp::Type::kXrcSend && !local;
  if (names_srq && !can_name_srq(from.qp_type.xrc.remote_srqn)) return EINVAL;

  queue::SendQueue& queue = *qp.handle->send_queue;
  queue::SendRequest* request = queue.reserve();
  if (request == nullptr) return ENOMEM;
  if (qp.type == qp::Type::kUd)
    set_address(qp, *request, *from.wr.ud.ah, from.wr.ud.remote_qpn, from.wr.ud.remote_qkey);
  if (names_srq) set_srq(qp, *request, from.qp_type.xrc.remote_srqn);
  request->wr_id = from.wr_id;
  request->remote_address = from.wr.rdma.remote_addr;
  request->rkey = {from.wr.rdma.rkey};
  request->immediate = from.imm_data;
  request->invalidate = {from.invalidate_rkey};
  request->length = static_cast<uint32_t>(bytes);
  request->operation = operation;
  request->signaled = qp.signal_all || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  request->solicited = (from.send_flags & IBV_SEND_SOLICITED) != 0;
  request->fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  request->inline_data = inline_data;
  if (is_atomic(operation)) fill_atomic(queue, *request, from);
  if (inline_data) {
    copy_inline(queue.inline_bytes(*request), from.sg_list, count);
  } else {
    request->segments = static_cast<uint16_t>(count);
    copy_segments(queue.segments(*request), from.sg_list, count);
  }
  return 0;
}

int enqueue(VerbsQp& qp, const ibv_recv_wr& from) {
  if (from.num_sge < 0 || static_cast<uint32_t>(from.num_sge) > qp.caps.max_recv_sge) return EINVAL;
  queue::ReceiveQueue& queue = *qp.handle->receive_queue;
  queue::ReceiveRequest* request = queue.reserve();
  if (request == nullptr) return ENOMEM;
  describe_receive(from, *request, queue.segments(*request));
  return 0;
}

/// Enqueues until the end or the first bad request, which `bad` then names; what was good before it is
/// published. `posted` says whether there was any.
template <typename Request, typename Queue>
int enqueue_list(VerbsQp& qp, Queue& queue, Request* request, Request** bad, bool& posted) {
  int error = 0;
  for (; request != nullptr; request = request->next) {
    error = enqueue(qp, *request);
    if (error != 0) {
      *bad = request;
      break;
    }
    posted = true;
  }
  if (posted) queue.publish();
  return error;
}

}  // namespace

void describe_receive(const ibv_recv_wr& from, queue::ReceiveRequest& to, queue::Segment* segments) {
  const auto count = static_cast<uint32_t>(from.num_sge);
  to.wr_id = from.wr_id;
  // Buffers may be longer than any message; the length only says what fits.
  to.length = static_cast<uint32_t>(std::min<uint64_t>(sum(from.sg_list, count), UINT32_MAX));
  to.segments = static_cast<uint16_t>(count);
  copy_segments(segments, from.sg_list, count);
}

int post_send(ibv_qp* face, ibv_send_wr* request, ibv_send_wr** bad) {
  VerbsQp& qp = object(face);
  if (!qp.owner->alive()) {
    *bad = request;
    return EIO;
  }
  bool posted = false;
  int error = 0;
  {
    const std::lock_guard guard(qp.send_lock);
    // Relaxed: the state is the caller's own knowledge; modify_qp takes the lock when it shuts the queue.
    if (qp.state.load(std::memory_order_relaxed) < IBV_QPS_RTS) {
      *bad = request;
      return EINVAL;
    }
    error = enqueue_list(qp, *qp.handle->send_queue, request, bad, posted);
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
    qp.handle->send_queue->publish();
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
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_RESET || qp.qp_base.recv_cq == nullptr ||
      qp.qp_base.srq != nullptr) {
    *bad = request;
  } else {
    error = enqueue_list(qp, *qp.handle->receive_queue, request, bad, posted);
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
