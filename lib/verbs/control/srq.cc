// Shared receive queues.
#include <cerrno>
#include <mutex>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

using engine::Limits;

bool fits(const ibv_srq_attr& wanted) {
  return wanted.max_wr > 0 && wanted.max_wr <= Limits::kWorkRequests && wanted.max_sge <= Limits::kSegments;
}

/// `xrcd` and `cq`: of XRC.
ibv_srq* create_srq(ibv_pd* pd, const ibv_srq_attr& wanted, void* srq_context, ibv_xrcd* xrcd = nullptr,
                    ibv_cq* cq = nullptr) {
  VerbsContext& context = object(pd->context);
  if (!context.alive()) return fail(EIO);
  if (!fits(wanted)) return fail(EINVAL);
  auto srq = std::make_unique<VerbsSrq>();
  srq->memory = memory_of(&object(pd), DomainMemory::Type::kSharedReceiveQueue);
  auto made = context.device->create_shared_receives(
      {.domain = object(pd).domain,
       .queue = {.depth = wanted.max_wr,
                 .segments_max = wanted.max_sge,
                 .listener = &srq->notifier,
                 .owner = srq.get(),
                 .memory = srq->memory.get()},
       .xrc_domain = xrcd != nullptr ? object(xrcd).domain->domain.get() : nullptr,
       .completions = cq != nullptr ? object(cq).queue.get() : nullptr});
  if (!made) return fail("create_srq", made.error());
  // One of XRC is its domain's poller's.
  if (object(pd).td != nullptr && xrcd == nullptr) context.device->bind(**made, object(pd).td->domain);
  srq->receives = std::move(*made);
  srq->owner = &context;
  ibv_srq& face = *srq;
  face.context = pd->context;
  face.srq_context = srq_context;
  face.pd = pd;
  pthread_mutex_init(&face.mutex, nullptr);
  pthread_cond_init(&face.cond, nullptr);
  object(pd).users.fetch_add(1);
  if (xrcd != nullptr) {
    srq->xrcd = &object(xrcd);
    srq->cq = &object(cq);
    srq->xrcd->users.fetch_add(1);
    srq->cq->users.fetch_add(1);
  }
  return srq.release();
}

bool is_basic(const ibv_srq_init_attr_ex& wanted) {
  return (wanted.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || bits_of(wanted.srq_type) == IBV_SRQT_BASIC;
}

/// 0, or why no queue like this can be made.
int check(const ibv_context* context, const ibv_srq_init_attr_ex& wanted) {
  constexpr uint32_t kKnown =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const auto given = [&](unsigned bit, const auto* object) {
    return (wanted.comp_mask & bit) != 0 && object != nullptr && object->context == context;
  };
  if ((wanted.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if (!is_basic(wanted) && bits_of(wanted.srq_type) != IBV_SRQT_XRC) return EOPNOTSUPP;
  if (!given(IBV_SRQ_INIT_ATTR_PD, wanted.pd)) return EINVAL;
  if (is_basic(wanted)) return 0;
  const bool complete = given(IBV_SRQ_INIT_ATTR_XRCD, wanted.xrcd) && given(IBV_SRQ_INIT_ATTR_CQ, wanted.cq);
  return complete ? 0 : EINVAL;
}

int resize_srq(VerbsSrq& srq, uint32_t depth) {
  const auto change = srq.receives->queue.prepare(depth);
  // Memory may be the application's to give and to take, which does not happen under a lock.
  const std::lock_guard guard(srq.lock);
  return srq.owner->device->resize_shared_receives(*srq.receives, *change);
}

/// All of it or nothing.
int modify_srq(VerbsSrq& srq, const ibv_srq_attr& wanted, int mask) {
  if (!srq.owner->alive()) return EIO;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  const std::lock_guard guard(srq.changes);
  queue::SharedReceiveQueue& queue = srq.receives->queue;
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
  const uint32_t depth = resizes ? wanted.max_wr : queue.depth();
  if (depth == 0 || depth > Limits::kWorkRequests) return EINVAL;
  if ((mask & IBV_SRQ_LIMIT) != 0 && wanted.srq_limit > depth) return EINVAL;
  if (const int error = resizes ? resize_srq(srq, depth) : 0; error != 0) return error;
  if ((mask & IBV_SRQ_LIMIT) != 0) queue.set_limit(wanted.srq_limit);
  return 0;
}

int query_srq(const VerbsSrq& srq, ibv_srq_attr& attributes) {
  if (!srq.owner->alive()) return EIO;
  const queue::SharedReceiveQueue& queue = srq.receives->queue;
  attributes = {.max_wr = queue.depth(), .max_sge = queue.options().segments_max, .srq_limit = queue.limit()};
  return 0;
}

int enqueue(VerbsSrq& srq, const ibv_recv_wr& from) {
  queue::SharedReceiveQueue& queue = srq.receives->queue;
  if (from.num_sge < 0 || static_cast<uint32_t>(from.num_sge) > queue.options().segments_max) return EINVAL;
  queue::ReceiveRequest* request = queue.reserve();
  if (request == nullptr) return ENOMEM;
  describe_receive(from, *request, queue.segments(*request));
  queue.publish(*request);
  return 0;
}

}  // namespace

void LimitNotifier::limit_reached(queue::SharedReceiveQueue&) {
  raise_async_event(srq_, IBV_EVENT_SRQ_LIMIT_REACHED);
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  return pointer_or_errno([&]() -> ibv_srq* {
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check(context, *wanted); error != 0) return fail(error);
    if (is_basic(*wanted)) return create_srq(wanted->pd, wanted->attr, wanted->srq_context);
    return create_srq(wanted->pd, wanted->attr, wanted->srq_context, wanted->xrcd, wanted->cq);
  });
}

int post_srq_recv(ibv_srq* face, ibv_recv_wr* request, ibv_recv_wr** bad) {
  VerbsSrq& srq = object(face);
  int error = srq.owner->alive() ? 0 : EIO;
  const std::lock_guard guard(srq.lock);
  for (; error == 0 && request != nullptr; request = request->next) {
    error = enqueue(srq, *request);
    if (error != 0) break;
  }
  if (error != 0) *bad = request;
  return error;
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_srq* uroce_ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  if (!all_given(pd, wanted)) return fail(EINVAL);
  return pointer_or_errno([&] { return create_srq(pd, wanted->attr, wanted->srq_context); });
}

UROCE_EXPORT int uroce_ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  if (!all_given(srq, attributes)) return with_errno(EINVAL);
  return zero_or_errno([&] { return modify_srq(object(srq), *attributes, mask); });
}

UROCE_EXPORT int uroce_ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  if (!all_given(srq, attributes)) return with_errno(EINVAL);
  return with_errno(query_srq(object(srq), *attributes));
}

UROCE_EXPORT int uroce_ibv_destroy_srq(ibv_srq* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsSrq& srq = object(face);
    if (!srq.owner->alive()) return EIO;
    if (srq.users.load() != 0) return EBUSY;
    srq.owner->device->destroy_shared_receives(std::move(srq.receives));
    await_async_acknowledgements(srq);
    object(face->pd).users.fetch_sub(1);
    if (srq.xrcd != nullptr) {
      srq.xrcd->users.fetch_sub(1);
      srq.cq->users.fetch_sub(1);
    }
    pthread_cond_destroy(&face->cond);
    pthread_mutex_destroy(&face->mutex);
    delete &srq;
    return 0;
  });
}

}  // extern "C"
