// Decision: ibv_destroy_qp succeeds while windows of type 2B are bound by the queue pair. They stay bound for
// no queue pair until they are deallocated: a binding names an identity that is never used again (47 bits).
// Cost: their region cannot be deregistered before.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <string_view>

#include "qp/attributes/attributes.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"
#include "verbs/calls/standard_streams.h"
#include "verbs/control/modify_qp.h"

namespace uroce::verbs {

namespace {

using engine::Limits;

/// Programs such as raw_ethernet_bw end on it without a word.
void say_once(std::string_view what) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) complain(std::string(what));
}

bool sends(ibv_qp_type type) { return type != IBV_QPT_XRC_RECV; }
bool receives(ibv_qp_type type) { return sends(type) && type != IBV_QPT_XRC_SEND; }

/// What a queue pair of the type does not have is not looked at. With a shared receive queue it has none of
/// its own.
void leave_out_what_it_lacks(ibv_qp_init_attr& wanted) {
  if (!receives(wanted.qp_type)) {
    wanted.recv_cq = nullptr;
    wanted.srq = nullptr;
  }
  if (!receives(wanted.qp_type) || wanted.srq != nullptr)
    wanted.cap.max_recv_wr = wanted.cap.max_recv_sge = 0;
  if (sends(wanted.qp_type)) return;
  wanted.send_cq = nullptr;
  wanted.cap = {};
}

/// Room for inline data where a list of segments would lie, whether it was asked for or not: rdma_xclient
/// counts on it.
void round_up_inline(ibv_qp_cap& caps) {
  if (caps.max_send_wr == 0) return;
  const auto room = std::min<uint32_t>(caps.max_send_sge * sizeof(ibv_sge), Limits::kInlineBytes);
  caps.max_inline_data = std::max(caps.max_inline_data, room);
}

/// 0, or why no queue pair like this can be made.
int check(const ibv_context* context, const ibv_qp_init_attr& wanted) {
  const auto is_of_context = [&](const auto* object) {
    return object != nullptr && object->context == context;
  };
  if (wanted.srq != nullptr && (!is_of_context(wanted.srq) || object(wanted.srq).xrcd != nullptr))
    return refused(Reason::kSharedReceives);
  if (sends(wanted.qp_type) && !is_of_context(wanted.send_cq)) return refused(Reason::kSendCq);
  if (receives(wanted.qp_type) && !is_of_context(wanted.recv_cq)) return refused(Reason::kReceiveCq);
  const ibv_qp_cap& caps = wanted.cap;
  struct Capacity {
    uint32_t wanted;
    uint32_t most;
    Reason reason;
  };
  for (const auto& [asked, most, reason] :
       {Capacity{caps.max_send_wr, Limits::kWorkRequests, Reason::kSendRequests},
        Capacity{caps.max_recv_wr, Limits::kWorkRequests, Reason::kReceiveRequests},
        Capacity{caps.max_send_sge, Limits::kSegments, Reason::kSendSegments},
        Capacity{caps.max_recv_sge, Limits::kSegments, Reason::kReceiveSegments},
        Capacity{caps.max_inline_data, Limits::kInlineBytes, Reason::kInlineBytes}}) {
    if (asked > most) return refused(reason, asked, most);
  }
  return 0;
}

}  // namespace

namespace {

void fill_face(VerbsQp& qp, ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  const ibv_qp_cap& caps = wanted.cap;
  qp.limits = {.send_requests = static_cast<uint16_t>(caps.max_send_wr),
               .receive_requests = static_cast<uint16_t>(caps.max_recv_wr),
               .inline_bytes = static_cast<uint16_t>(caps.max_inline_data),
               .send_segments = static_cast<uint8_t>(caps.max_send_sge),
               .receive_segments = static_cast<uint8_t>(caps.max_recv_sge)};
  qp.signal_all = wanted.sq_sig_all != 0;
  ibv_qp& face = qp.face();
  face.context = context;
  face.qp_context = wanted.qp_context;
  face.pd = pd;
  face.send_cq = wanted.send_cq;
  face.recv_cq = wanted.recv_cq;
  face.srq = wanted.srq;
  face.qp_num = qp.handle->number.value;
  face.handle = face.qp_num;
  face.state = IBV_QPS_RESET;
  face.qp_type = wanted.qp_type;
  pthread_mutex_init(&face.mutex, nullptr);
  pthread_cond_init(&face.cond, nullptr);
}

/// change(users) for everything that the queue pair is made of.
template <typename Change>
void for_each_count_of_users(const ibv_qp& face, Change change) {
  if (face.pd != nullptr) change(object(face.pd).users);
  if (face.send_cq != nullptr) change(object(face.send_cq).users);
  if (face.recv_cq != nullptr) change(object(face.recv_cq).users);
  if (face.srq != nullptr) change(object(face.srq).users);
}

queue::CompletionQueue* queue_of(ibv_cq* cq) { return cq != nullptr ? object(cq).queue.get() : nullptr; }

std::unique_ptr<VerbsQp> make_object(bool extended) {
  if (extended) return std::make_unique<ExtendedQp>();
  return std::make_unique<PlainQp>();
}

void enter_or_destroy(VerbsXrcd& xrcd, VerbsQp& target) {
  try {
    enter_target(xrcd, target);
  } catch (const std::bad_alloc&) {
    target.owner->device->destroy_queue_pair(*target.handle);
    throw;
  }
}

}  // namespace

int check_type(unsigned type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return 0;
    case IBV_QPT_RAW_PACKET:
      say_once(sentence_of(Reason::kRawPacket));
      return EOPNOTSUPP;
    default:
      return refused(Reason::kQpType, type);
  }
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr& asked, const QpExtras& extras) {
  ibv_qp_init_attr wanted = asked;
  if (const int error = check_type(bits_of(wanted.qp_type)); error != 0) return fail(error);
  const bool is_target = !sends(wanted.qp_type);
  if (is_target ? extras.xrcd == nullptr : pd == nullptr || extras.xrcd != nullptr) return fail(EINVAL);
  ibv_context* face = is_target ? extras.xrcd->context : pd->context;
  VerbsContext& context = object(face);
  if (!context.alive()) return fail(EIO);
  leave_out_what_it_lacks(wanted);
  if (const int error = check(face, wanted); error != 0) return fail(error);
  round_up_inline(wanted.cap);
  std::unique_ptr<VerbsQp> qp = make_object(extras.extended);
  qp->type = static_cast<qp::Type>(wanted.qp_type);
  if (is_target) {
    qp->xrc = std::make_unique<XrcHandle>();
    qp->xrc->target = std::make_shared<XrcTarget>();
  }
  VerbsPd* const domain = is_target ? nullptr : &object(pd);
  qp->memory = memory_of(domain, DomainMemory::Type::kQueuePair);
  const Result<engine::QpSlot*> handle = context.device->create_queue_pair({
      .type = qp->type,
      .domain = is_target ? DomainId{} : object(pd).domain,
      .signal_all = wanted.sq_sig_all != 0,
      .reserved_lkey = extras.reserved_lkey,
      .send_depth = wanted.cap.max_send_wr,
      .receive_depth = wanted.cap.max_recv_wr,
      .send_segments = wanted.cap.max_send_sge,
      .receive_segments = wanted.cap.max_recv_sge,
      .inline_bytes = wanted.cap.max_inline_data,
      .send_completions = queue_of(wanted.send_cq),
      .receive_completions = queue_of(wanted.recv_cq),
      .shared_receives = wanted.srq != nullptr ? object(wanted.srq).receives.get() : nullptr,
      .xrc_domain = is_target ? object(extras.xrcd).domain->domain.get() : nullptr,
      .listener = is_target ? static_cast<qp::EventListener*>(qp->xrc->target.get()) : qp.get(),
      .thread_domain = is_target ? std::nullopt : domain->thread_domain(),
      .memory = qp->memory.get(),
  });
  if (!handle) return fail("create_qp", handle.error());
  qp->owner = &context;
  qp->handle = *handle;
  if (is_target) {
    // Not before: for a number it may have been waited.
    const std::lock_guard targets(object(extras.xrcd).domain->mutex);
    enter_or_destroy(object(extras.xrcd), *qp);
  }
  if (!is_target) qp->handle->owner = qp.get();
  fill_face(*qp, face, is_target ? nullptr : pd, wanted);
  for_each_count_of_users(qp->face(), [](auto& users) { users.fetch_add(1); });
  asked.cap = wanted.cap;
  return &qp.release()->face();
}

namespace {

/// From here on posts are refused, and none is on its way in.
void shut_queues(VerbsQp& qp) {
  qp.state.store(IBV_QPS_RESET);
  const std::scoped_lock both(qp.send_lock);
  const std::scoped_lock receive(qp.receive_lock);
}

/// What was flushed on the way to RESET belongs to the queue pair's last life: no program waits for it in the
/// next.
void forget_completions(const VerbsQp& qp) {
  for (ibv_cq* face : {qp.face().send_cq, qp.face().recv_cq}) {
    if (face == nullptr) continue;
    VerbsCq& cq = object(face);
    const std::lock_guard guard(cq.poll_lock);
    cq.queue->remove(qp.handle->number);
  }
}

/// What half a connection has no use for: programs such as perftest name it all the same, and Linux does not
/// look at it.
constexpr qp::AttributeMask without_what_it_lacks(qp::Type type, qp::AttributeMask mask) {
  if (type == qp::Type::kXrcSend) return mask.without(qp::kMaskMaxDestRdAtomic | qp::kMaskMinRnrTimer);
  if (type == qp::Type::kXrcReceive)
    return mask.without(qp::kMaskMaxRdAtomic | qp::kMaskRetryCount | qp::kMaskRnrRetry);
  return mask;
}

}  // namespace

int modify_qp(VerbsQp& qp, const ibv_qp_attr& wanted, int given, MacAddress peer) {
  if (!qp.owner->alive()) return EIO;
  const auto mask = without_what_it_lacks(qp.type, qp::AttributeMask(static_cast<uint32_t>(given)));
  qp::Attributes attributes;
  if (const int error = translate(qp, wanted, mask, attributes); error != 0) return error;
  attributes.path.destination_mac = peer;
  const ControlGuard guard(qp);
  const uint8_t before = qp.state.load();
  const bool to_reset = mask.any(qp::kMaskState) && wanted.qp_state == IBV_QPS_RESET;
  if (to_reset) shut_queues(qp);
  const int error = qp.owner->device->modify_queue_pair(*qp.handle, attributes, mask);
  if (error != 0) {
    qp.state.store(before);
    return error == EINVAL ? refused(Reason::kTransition, static_cast<uint32_t>(given), before) : error;
  }
  if (to_reset) forget_completions(qp);
  if (mask.any(qp::kMaskAv)) qp.address() = wanted.ah_attr;
  if (mask.any(qp::kMaskState)) {
    qp.face().state = wanted.qp_state;
    qp.state.store(static_cast<uint8_t>(wanted.qp_state));
  }
  return 0;
}

namespace {

ibv_qp_cap caps_of(const QueueLimits& limits) {
  return {.max_send_wr = limits.send_requests,
          .max_recv_wr = limits.receive_requests,
          .max_send_sge = limits.send_segments,
          .max_recv_sge = limits.receive_segments,
          .max_inline_data = limits.inline_bytes};
}

ibv_qp_attr describe(VerbsQp& qp, const qp::Attributes& now) {
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(now.state);
  attributes.cur_qp_state = attributes.qp_state;
  attributes.path_mtu = static_cast<ibv_mtu>(now.path_mtu);
  attributes.path_mig_state = IBV_MIG_MIGRATED;
  attributes.rq_psn = now.rq_psn.value();
  attributes.sq_psn = now.sq_psn.value();
  attributes.dest_qp_num = now.destination.value;
  attributes.qkey = now.qkey;
  attributes.qp_access_flags = now.access.bits();
  attributes.cap = caps_of(qp.limits);
  attributes.ah_attr = qp.address();
  attributes.pkey_index = now.pkey_index;
  attributes.max_rd_atomic = now.max_rd_atomic;
  attributes.max_dest_rd_atomic = now.max_dest_rd_atomic;
  attributes.min_rnr_timer = now.min_rnr_timer;
  attributes.port_num = now.port;
  attributes.timeout = now.timeout;
  attributes.retry_cnt = now.retry_count;
  attributes.rnr_retry = now.rnr_retry;
  attributes.en_sqd_async_notify = now.notify_drained ? 1 : 0;
  attributes.sq_draining = now.draining ? 1 : 0;
  return attributes;
}

void query_qp(VerbsQp& qp, ibv_qp_attr& attributes, ibv_qp_init_attr& initial) {
  const ControlGuard guard(qp);
  attributes = describe(qp, qp.owner->device->query_queue_pair(*qp.handle));
  ibv_qp& face = qp.face();
  face.state = attributes.qp_state;
  qp.state.store(static_cast<uint8_t>(attributes.qp_state));
  initial = ibv_qp_init_attr{};
  initial.qp_context = face.qp_context;
  initial.send_cq = face.send_cq;
  initial.recv_cq = face.recv_cq;
  initial.srq = face.srq;
  initial.cap = attributes.cap;
  initial.qp_type = face.qp_type;
  initial.sq_sig_all = qp.signal_all ? 1 : 0;
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_qp* uroce_ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  if (!all_given(pd, wanted)) return fail(EINVAL);
  return pointer_or_errno([&] { return create_qp(pd, *wanted, {}); });
}

UROCE_EXPORT int uroce_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  if (!all_given(qp, attributes)) return with_errno(EINVAL);
  return zero_or_errno([&] { return modify_qp(object(qp), *attributes, mask, {}); });
}

UROCE_EXPORT int uroce_ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* initial) {
  if (!all_given(qp, attributes, initial)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    if (!object(qp).owner->alive()) return EIO;
    query_qp(object(qp), *attributes, *initial);
    return 0;
  });
}

UROCE_EXPORT int uroce_ibv_destroy_qp(ibv_qp* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsQp& qp = object(face);
    if (!qp.owner->alive()) return EIO;
    if (qp.owner->device->in_groups(*qp.handle)) return EBUSY;
    if (qp.xrc == nullptr || leave_target(qp)) qp.owner->device->destroy_queue_pair(*qp.handle);
    await_async_acknowledgements(qp);
    for_each_count_of_users(*face, [](auto& users) { users.fetch_sub(1); });
    if (qp.xrc != nullptr) qp.xrc->xrcd->users.fetch_sub(1);
    pthread_cond_destroy(&face->cond);
    pthread_mutex_destroy(&face->mutex);
    delete &qp;
    return 0;
  });
}

}  // extern "C"
