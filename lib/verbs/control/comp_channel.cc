#include <cerrno>
#include <cstring>
#include <mutex>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/standard_streams.h"

namespace uroce::verbs {

namespace {

/// Events of one queue that wait to be read; more are merged, so that a channel that is not read does not
/// fill up. (An application that arms a queue again before it has read the event of the last time will find
/// it at the next read.)
constexpr uint32_t kEventsUnreadMax = 4;

}  // namespace

void CompletionNotifier::completed(queue::CompletionQueue&) {
  if (cq_.events_unread.load() >= kEventsUnreadMax) return;
  // Counted before it is sent: from then on the event can be read, and the queue cannot be freed until it was
  // acknowledged.
  cq_.events_unread.fetch_add(1);
  cq_.events_sent.fetch_add(1);
  const ibv_cq* record = &cq_.face;
  if (!object(cq_.face.channel).events.push(&record)) {
    cq_.events_sent.fetch_sub(1);
    cq_.events_unread.fetch_sub(1);
  }
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_comp_channel* uroce_ibv_create_comp_channel(ibv_context* face) {
  if (!all_given(face)) return fail(EINVAL);
  return pointer_or_errno([&]() -> ibv_comp_channel* {
    if (!object(face).alive()) return fail(EIO);
    const StandardStreamsReserved streams;
    auto channel = std::make_unique<VerbsChannel>();
    if (const int error = channel->events.open(); error != 0) return fail(error);
    channel->context = face;
    channel->fd = channel->events.read_fd();
    channel->refcnt = 0;
    object(face).users.fetch_add(1);
    return channel.release();
  });
}

UROCE_EXPORT int uroce_ibv_destroy_comp_channel(ibv_comp_channel* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  VerbsChannel& channel = object(face);
  pthread_mutex_lock(&channel.context->mutex);
  const bool used = channel.refcnt != 0;
  pthread_mutex_unlock(&channel.context->mutex);
  if (used) return with_errno(EBUSY);
  object(channel.context).users.fetch_sub(1);
  delete &channel;
  return 0;
}

UROCE_EXPORT int uroce_ibv_get_cq_event(ibv_comp_channel* face, ibv_cq** cq, void** cq_context) {
  if (!all_given(face, cq, cq_context)) return minus_one(EINVAL);
  VerbsChannel& channel = object(face);
  ibv_cq* record = nullptr;
  const int error = object(channel.context).alive() ? channel.events.pop(&record) : EIO;
  if (error != 0) return minus_one(error);
  object(record).events_unread.fetch_sub(1);
  *cq = record;
  *cq_context = record->cq_context;
  return 0;
}

UROCE_EXPORT void uroce_ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  if (!all_given(cq)) return static_cast<void>(with_errno(EINVAL));
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
