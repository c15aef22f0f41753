#include <algorithm>
#include <cerrno>
#include <cstring>

#include "qp/attributes/operations.h"
#include "qp/requester/local_operation.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/requests.h"

// Posting by ibv_wr_*: between start and complete the caller describes one request after the other, and holds
// the send queue's lock. What goes wrong on the way is told by complete, and then nothing is posted.

namespace uroce::verbs {

namespace {

using queue::SendOperation;

/// Values of send_ops_flags that a queue pair of that type may be asked for.
uint64_t flags_of(unsigned type) {
  uint64_t flags = 0;
  if (type > static_cast<unsigned>(qp::Type::kXrcReceive)) return flags;
  for (const queue::OperationRow& row : queue::kOperations)
    if (qp::has_operation(static_cast<qp::Type>(type), row.operation)) flags |= row.create_flag;
  return flags;
}

/// What was described since start is forgotten, and what it holds given back.
void cancel(ExtendedQp& qp) {
  queue::SendQueue& queue = qp.handle->send_queue;
  for (uint32_t number = queue.published(); number != queue.reserved(); ++number)
    qp::drop_operation(queue, queue.reserved_at(number));
  queue.cancel();
}

void start(ibv_qp_ex* face) {
  ExtendedQp& qp = object(face);
  qp.handle->prepare_to_post();
  qp.send_lock.lock();
  qp.request = nullptr;
  // Relaxed: as in post_send.
  qp.list_error = !qp.owner->alive()                                       ? EIO
                  : qp.state.load(std::memory_order_relaxed) < IBV_QPS_RTS ? EINVAL
                                                                           : 0;
}

/// A datagram that was described must have got its address, and what is sent over XRC its shared receive
/// queue.
void check_address(ExtendedQp& qp) {
  if (qp.request == nullptr) return;
  const queue::SendQueue& queue = qp.handle->send_queue;
  const bool lost = qp.type == qp::Type::kUd
                        ? queue.attachment<qp::DatagramAddress>(*qp.request).frame.bytes() == 0
                    : qp.type == qp::Type::kXrcSend && !is_local(qp.request->operation)
                        ? queue.attachment<queue::SrqNumber>(*qp.request) == queue::SrqNumber{}
                        : false;
  if (lost) refuse(qp, EINVAL);
}

int complete(ibv_qp_ex* face) {
  ExtendedQp& qp = object(face);
  if (!qp.owner->alive()) {
    qp.send_lock.unlock();
    return EIO;
  }
  check_address(qp);
  const int error = qp.list_error;
  if (error == 0) {
    qp.handle->send_queue.publish();
  } else {
    cancel(qp);
  }
  qp.send_lock.unlock();
  if (error == 0) qp.owner->device->ring_doorbell(*qp.handle);
  return error;
}

void abort(ibv_qp_ex* face) {
  ExtendedQp& qp = object(face);
  if (qp.owner->alive()) cancel(qp);
  qp.send_lock.unlock();
}

}  // namespace

void refuse(ExtendedQp& qp, int error) {
  if (qp.list_error == 0) qp.list_error = error;
  qp.request = nullptr;
}

queue::SendRequest* begin(ibv_qp_ex* face, SendOperation operation) {
  ExtendedQp& qp = object(face);
  check_address(qp);
  if (qp.list_error != 0) return nullptr;
  if (!qp::has_operation(qp.type, operation)) {
    refuse(qp, EINVAL);
    return nullptr;
  }
  const auto given = [face](unsigned flag) { return (face->wr_flags & flag) != 0; };
  if (given(~unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE})) {
    refuse(qp, EINVAL);
    return nullptr;
  }
  qp.request = qp.handle->send_queue.reserve();
  if (qp.request == nullptr) {
    refuse(qp, ENOMEM);
    return nullptr;
  }
  if (qp.type == qp::Type::kUd) qp.handle->send_queue.attach(*qp.request, qp::DatagramAddress{});
  if (qp.type == qp::Type::kXrcSend) qp.handle->send_queue.attach(*qp.request, queue::SrqNumber{});
  qp.request->wr_id = face->wr_id;
  qp.request->operation = operation;
  qp.request->signaled = qp.signal_all || given(IBV_SEND_SIGNALED);
  qp.request->solicited = given(IBV_SEND_SOLICITED);
  qp.request->fence = given(IBV_SEND_FENCE);
  return qp.request;
}

namespace {

void begin_remote(ibv_qp_ex* face, SendOperation operation, uint64_t remote_address, uint32_t rkey) {
  if (queue::SendRequest* request = begin(face, operation); request != nullptr) {
    request->remote_address = remote_address;
    request->rkey = {rkey};
  }
}

void begin_atomic(ibv_qp_ex* face, SendOperation operation, uint64_t remote_address, uint32_t rkey,
                  const queue::AtomicOperands& operands) {
  begin_remote(face, operation, remote_address, rkey);
  if (const ExtendedQp& qp = object(face); qp.request != nullptr)
    qp.handle->send_queue.operands(*qp.request) = operands;
}

/// The value is taken at once; there is no list.
void write_atomically(ibv_qp_ex* face, uint32_t rkey, uint64_t remote_address, const void* value) {
  begin_remote(face, SendOperation::kAtomicWrite, remote_address, rkey);
  const ExtendedQp& qp = object(face);
  if (qp.request == nullptr) return;
  static_assert(queue::SendQueue::kOperationBytes >= queue::kAtomicBytes);
  std::memcpy(qp.handle->send_queue.inline_bytes(*qp.request), value, queue::kAtomicBytes);
  qp.request->inline_data = true;
  qp.request->length = queue::kAtomicBytes;
}

void set_immediate(ibv_qp_ex* face, __be32 immediate) {
  if (ExtendedQp& qp = object(face); qp.request != nullptr) qp.request->immediate = immediate;
}

/// All of it is said with the call that begins it: it moves nothing, or a word that is given there.
bool has_no_list(SendOperation operation) {
  return queue::is_in<queue::set_of([](const queue::OperationRow& row) {
    return !row.has_result && (!row.carries_data || row.is_of_a_word);
  })>(operation);
}

void set_segments(ibv_qp_ex* face, size_t count, const ibv_sge* segments) {
  ExtendedQp& qp = object(face);
  if (qp.request == nullptr) return;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += length_of(&segments[i]);
  if (count > qp.limits.send_segments || bytes > kMessageBytesMax || has_no_list(qp.request->operation))
    return refuse(qp, EINVAL);
  qp.request->segments = static_cast<uint16_t>(count);
  qp.request->length = static_cast<uint32_t>(bytes);
  copy_segments(qp.handle->send_queue.segments(*qp.request), segments, static_cast<uint32_t>(count));
}

void set_inline(ibv_qp_ex* face, size_t count, const ibv_data_buf* pieces) {
  ExtendedQp& qp = object(face);
  if (qp.request == nullptr) return;
  if (has_result(qp.request->operation) || has_no_list(qp.request->operation)) return refuse(qp, EINVAL);
  std::byte* to = qp.handle->send_queue.inline_bytes(*qp.request);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].length > qp.limits.inline_bytes - bytes) return refuse(qp, EINVAL);
    if (pieces[i].length != 0) std::memcpy(to + bytes, pieces[i].addr, pieces[i].length);
    bytes += pieces[i].length;
  }
  qp.request->inline_data = true;
  qp.request->length = static_cast<uint32_t>(bytes);
}

void set_ud_address(ibv_qp_ex* face, ibv_ah* ah, uint32_t number, uint32_t qkey) {
  ExtendedQp& qp = object(face);
  if (qp.request == nullptr) return;
  if (qp.type != qp::Type::kUd || !can_go_to(qp, ah, number)) return refuse(qp, EINVAL);
  set_address(qp, *qp.request, *ah, number, qkey);
}

void set_xrc_srqn(ibv_qp_ex* face, uint32_t number) {
  ExtendedQp& qp = object(face);
  if (qp.request == nullptr) return;
  if (qp.type != qp::Type::kXrcSend || !can_name_srq(number)) return refuse(qp, EINVAL);
  set_srq(qp, *qp.request, number);
}

void bind_window(ibv_qp_ex* face, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  ExtendedQp& qp = object(face);
  qp::BindOperation operation;
  if (!all_given(mw, info) || bits_of(mw->type) != IBV_MW_TYPE_2) return refuse(qp, EINVAL);
  if (const int error = translate(qp, mw, rkey, *info, operation); error != 0) return refuse(qp, error);
  queue::SendRequest* request = begin(face, SendOperation::kBindWindow);
  if (request == nullptr) return;
  qp.handle->send_queue.set_operation(*request, operation);
  mw->rkey = operation.key.value;
}

void fill_operations(ibv_qp_ex& face) {
  face.wr_start = start;
  face.wr_complete = complete;
  face.wr_abort = abort;
  face.wr_send = [](ibv_qp_ex* qp) { begin(qp, SendOperation::kSend); };
  face.wr_send_imm = [](ibv_qp_ex* qp, __be32 immediate) {
    begin(qp, SendOperation::kSendImm);
    set_immediate(qp, immediate);
  };
  face.wr_send_inv = [](ibv_qp_ex* qp, uint32_t key) {
    if (queue::SendRequest* request = begin(qp, SendOperation::kSendInvalidate); request != nullptr)
      request->invalidate = {key};
  };
  face.wr_local_inv = [](ibv_qp_ex* qp, uint32_t key) {
    if (queue::SendRequest* request = begin(qp, SendOperation::kLocalInvalidate); request != nullptr)
      request->invalidate = {key};
  };
  face.wr_bind_mw = bind_window;
  face.wr_rdma_write = [](ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
    begin_remote(qp, SendOperation::kWrite, address, rkey);
  };
  face.wr_rdma_write_imm = [](ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 immediate) {
    begin_remote(qp, SendOperation::kWriteImm, address, rkey);
    set_immediate(qp, immediate);
  };
  face.wr_rdma_read = [](ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
    begin_remote(qp, SendOperation::kRead, address, rkey);
  };
  face.wr_set_ud_addr = set_ud_address;
  face.wr_set_xrc_srqn = set_xrc_srqn;
  face.wr_atomic_cmp_swp = [](ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare,
                              uint64_t swap) {
    begin_atomic(qp, SendOperation::kCompareSwap, address, rkey, {.swap_or_add = swap, .compare = compare});
  };
  face.wr_atomic_fetch_add = [](ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) {
    begin_atomic(qp, SendOperation::kFetchAdd, address, rkey, {.swap_or_add = add, .compare = 0});
  };
  face.wr_atomic_write = write_atomically;
  face.wr_set_sge = [](ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
    const ibv_sge segment{address, length, lkey};
    set_segments(qp, 1, &segment);
  };
  face.wr_set_sge_list = set_segments;
  face.wr_set_inline_data = [](ibv_qp_ex* qp, void* address, size_t length) {
    const ibv_data_buf piece{address, length};
    set_inline(qp, 1, &piece);
  };
  face.wr_set_inline_data_list = set_inline;
}

/// verbs.h calls what it finds here without looking; no program may ask for this, so this is for one that did
/// not ask.
void fill_refusals(ibv_qp_ex& face) {
  face.wr_send_tso = [](ibv_qp_ex* qp, auto...) { refuse(object(qp), EOPNOTSUPP); };
}

int check(const ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                              IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((wanted.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted.create_flags != 0) return EOPNOTSUPP;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
      (wanted.send_ops_flags & ~flags_of(bits_of(wanted.qp_type))) != 0) {
    return EOPNOTSUPP;
  }
  const auto given = [&](unsigned bit, const auto* object) {
    return (wanted.comp_mask & bit) != 0 && object != nullptr && object->context == context;
  };
  const bool is_target = bits_of(wanted.qp_type) == IBV_QPT_XRC_RECV;
  if (is_target) return given(IBV_QP_INIT_ATTR_XRCD, wanted.xrcd) ? 0 : EINVAL;
  return given(IBV_QP_INIT_ATTR_PD, wanted.pd) && (wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 ? 0
                                                                                                  : EINVAL;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted, const QpExtras& extras) {
  return pointer_or_errno([&]() -> ibv_qp* {
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check_type(bits_of(wanted->qp_type)); error != 0) return fail(error);
    if (const int error = check(context, *wanted); error != 0) return fail(error);
    // verbs.h itself relies on the extended structure beginning as the plain one.
    const bool is_target = bits_of(wanted->qp_type) == IBV_QPT_XRC_RECV;
    QpExtras all = extras;
    if (is_target) all.xrcd = wanted->xrcd;
    all.extended = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    ibv_qp* qp =
        create_qp(is_target ? nullptr : wanted->pd, *reinterpret_cast<ibv_qp_init_attr*>(wanted), all);
    if (qp == nullptr || !all.extended) return qp;
    ibv_qp_ex& made = static_cast<ExtendedQp&>(verbs::object(qp)).extended_face;
    fill_operations(made);
    fill_refusals(made);
    return qp;
  });
}

}  // namespace uroce::verbs

extern "C" UROCE_EXPORT ibv_qp_ex* uroce_ibv_qp_to_qp_ex(ibv_qp* face) {
  using namespace uroce::verbs;
  if (!all_given(face)) return fail(EINVAL);
  VerbsQp& qp = object(face);
  return qp.extended ? &static_cast<ExtendedQp&>(qp).extended_face
                     : static_cast<ibv_qp_ex*>(fail(EOPNOTSUPP));
}
