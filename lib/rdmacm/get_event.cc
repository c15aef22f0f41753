// rdma_get_cm_event, and what waits as it does.
//
// Decision: rdma_get_cm_event turns the pollers before it sleeps, where calls turn them. A peer that is awake
// answers meanwhile, and no thread has to be woken. Cost: up to 100 us of CPU.
#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <mutex>

#include "base/threads/idle_policy.h"
#include "engine/platform/clock.h"
#include "rdmacm/core.h"
#include "rdmacm/device.h"
#include "rdmacm/event_actions.h"
#include "rdmacm/id.h"
#include "rdmacm/id_events.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {

namespace {

bool may_wait(const Channel& channel) {
  const int flags = fcntl(channel.fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

/// A thread that is about to wait for an event turns the pollers that bring it meanwhile, as ibv_poll_cq
/// does; one that does not wait, once.
void turn_for_events(const Channel& channel) {
  if (!turn_for_services() || channel.has_events() || !may_wait(channel)) return;
  // A peer that is awake answers within that, and then no thread has to be woken.
  IdlePolicy policy = IdlePolicy::spins_for(IdleLimits::kEventAnswer);
  while (turn_for_services() && !channel.has_events()) {
    if (policy.after({.now = engine::clock_now()}).action == IdlePolicy::Action::kPark) return;
  }
}

/// An event that is there, or comes while the calling thread turns the pollers. Null: none.
std::unique_ptr<Event> look_for_event(Channel& channel) {
  {
    const std::lock_guard guard(core().mutex);
    if (std::unique_ptr<Event> event = channel.take_first()) return event;
    channel.begin_look();
  }
  turn_for_events(channel);
  const std::lock_guard guard(core().mutex);
  return channel.take_found();
}

/// Waits until one is signalled. Null and 0: it has been taken since.
std::unique_ptr<Event> wait_for_event(Channel& channel, int& error) {
  std::byte signal{};
  error = channel.signal.pop(&signal);
  if (error != 0) return nullptr;
  const std::lock_guard guard(core().mutex);
  return channel.take_signalled();
}

/// The next event that the program is to see. Null and errno.
rdma_cm_event* next_event(Channel& channel) {
  for (;;) {
    int error = 0;
    std::unique_ptr<Event> event = look_for_event(channel);
    if (event == nullptr) event = wait_for_event(channel, error);
    if (error != 0) return verbs::fail(error);
    if (event == nullptr) continue;
    if (carry_out(*event)) return event.release();
    acknowledge(*event);
  }
}

}  // namespace

int wait_if_synchronous(Id& id) {
  if (!id.synchronous()) return 0;
  drop_last_event(id);
  id.event = next_event(*id.own_channel);
  if (id.event == nullptr) return errno;
  const int status = id.event->status;
  if (status == 0) return 0;
  return id.event->event == RDMA_CM_EVENT_REJECTED || status > 0 ? ECONNREFUSED : -status;
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return returned(uroce::verbs::zero_or_errno([&] {
    Channel& its = object(channel);
    const Channel::Use use(its);
    its.stay_if_destroyed();
    *event = next_event(its);
    return *event != nullptr ? 0 : errno;
  }));
}

UROCE_EXPORT int uroce_rdma_ack_cm_event(rdma_cm_event* face) {
  if (face == nullptr) return returned(EINVAL);
  const std::unique_ptr<Event> event(&object(face));
  acknowledge(*event);
  return 0;
}

}  // extern "C"
