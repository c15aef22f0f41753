// Decision: ibv_req_notify_cq of a queue without a channel returns 0 and does nothing, as with mlx5, mlx4 and
// efa. Cost: a program that forgot the channel waits.
//
// Decision: a completion queue that has no room raises IBV_EVENT_CQ_ERR at that moment, as hardware does.
// ibv_poll_cq fails when what the queue holds is polled.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

/// Numbers the completion queues of this process from 1 on, in the order in which they are made.
uint32_t next_number() {
  static std::atomic<uint32_t> last{0};
  // Relaxed: a number and nothing else.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void change_references(ibv_comp_channel* channel, int by) {
  if (channel == nullptr) return;
  pthread_mutex_lock(&channel->context->mutex);
  channel->refcnt += by;
  pthread_mutex_unlock(&channel->context->mutex);
}

/// Takes the unread events of the queue out of its channel and waits until the others are acknowledged.
void await_acknowledgements(VerbsCq& cq) {
  if (cq.face.channel == nullptr) return;
  const size_t unread = object(cq.face.channel).events.remove_if([&](const void* record) {
    ibv_cq* of = nullptr;
    std::memcpy(&of, record, sizeof(of));
    return of == &cq.face;
  });
  const uint32_t delivered = cq.events_sent.load() - static_cast<uint32_t>(unread);
  pthread_mutex_lock(&cq.face.mutex);
  while (cq.face.comp_events_completed != delivered) pthread_cond_wait(&cq.face.cond, &cq.face.mutex);
  pthread_mutex_unlock(&cq.face.mutex);
}

}  // namespace

ibv_cq* create_cq(ibv_context* face, uint32_t entries, void* cq_context, ibv_comp_channel* channel,
                  VerbsPd* parent_domain) {
  VerbsContext& context = object(face);
  if (!context.alive()) return fail(EIO);
  if (entries == 0 || entries > engine::Limits::kCompletions) return fail(EINVAL);
  if (channel != nullptr && channel->context != face) return fail(EINVAL);
  auto cq = std::make_unique<VerbsCq>();
  cq->face.context = face;
  cq->face.channel = channel;
  cq->face.cq_context = cq_context;
  cq->face.cqe = static_cast<int>(entries);
  cq->face.handle = next_number();
  cq->owner = &context;
  cq->device = context.device.get();
  cq->memory = memory_of(parent_domain, DomainMemory::Type::kCompletionQueue);
  cq->queue = context.device->create_completion_queue({
      .depth = entries,
      .listener = channel == nullptr ? nullptr : &cq->notifier,
      .overrun_listener = &cq->overrun_notifier,
      .owner = cq.get(),
      .number = cq->face.handle,
      .memory = cq->memory.get(),
  });
  if (cq->queue == nullptr) return fail(ENOMEM);
  if (parent_domain != nullptr) {
    cq->parent_domain = parent_domain;
    if (parent_domain->td != nullptr) context.device->bind(*cq->queue, parent_domain->td->domain);
    parent_domain->users.fetch_add(1);
  }
  pthread_mutex_init(&cq->face.mutex, nullptr);
  pthread_cond_init(&cq->face.cond, nullptr);
  change_references(channel, 1);
  context.users.fetch_add(1);
  return &cq.release()->face;
}

namespace {

int resize_cq(VerbsCq& cq, int entries) {
  if (!cq.owner->alive()) return EIO;
  if (entries <= 0 || static_cast<uint32_t>(entries) > engine::Limits::kCompletions) return EINVAL;
  const std::lock_guard guard(cq.poll_lock);
  const int error = cq.device->resize_completion_queue(*cq.queue, static_cast<uint32_t>(entries));
  if (error == 0) cq.face.cqe = entries;
  return error;
}

}  // namespace

int modify_cq(ibv_cq* face, ibv_modify_cq_attr* wanted) {
  VerbsCq& cq = object(face);
  if (!all_given(wanted)) return with_errno(EINVAL);
  if (!cq.owner->alive()) return with_errno(EIO);
  if (wanted->attr_mask != IBV_CQ_ATTR_MODERATE) return with_errno(EINVAL);
  cq.queue->moderate(
      {.count = wanted->moderate.cq_count, .period = microseconds(wanted->moderate.cq_period)});
  return 0;
}

int req_notify_cq(ibv_cq* face, int solicited_only) {
  VerbsCq& cq = object(face);
  if (!cq.owner->alive()) return EIO;
  // Without a channel there is no event.
  if (cq.face.channel != nullptr) cq.queue->arm(solicited_only != 0);
  return 0;
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_cq* uroce_ibv_create_cq(ibv_context* face, int entries, void* cq_context,
                                         ibv_comp_channel* channel, int vector) {
  return pointer_or_errno([&]() -> ibv_cq* {
    if (face == nullptr || entries <= 0 || vector < 0 || vector >= face->num_comp_vectors)
      return fail(EINVAL);
    return create_cq(face, static_cast<uint32_t>(entries), cq_context, channel);
  });
}

UROCE_EXPORT int uroce_ibv_resize_cq(ibv_cq* cq, int entries) {
  if (!all_given(cq)) return with_errno(EINVAL);
  return zero_or_errno([&] { return resize_cq(object(cq), entries); });
}

UROCE_EXPORT int uroce_ibv_destroy_cq(ibv_cq* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsCq& cq = object(face);
    if (!cq.owner->alive()) return EIO;
    if (cq.users.load() != 0) return EBUSY;
    cq.device->retire_completion_queue(*cq.queue);
    // An event may have been lost on its way to the channel.
    if (!cq.device->lost()) await_acknowledgements(cq);
    await_async_acknowledgements(cq);
    change_references(face->channel, -1);
    cq.owner->users.fetch_sub(1);
    pthread_cond_destroy(&face->cond);
    pthread_mutex_destroy(&face->mutex);
    VerbsPd* const parent_domain = cq.parent_domain;
    delete &cq;
    // Its allocator was needed to the last.
    if (parent_domain != nullptr) parent_domain->users.fetch_sub(1);
    return 0;
  });
}

}  // extern "C"
