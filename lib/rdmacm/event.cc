#include "rdmacm/event.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "rdmacm/core.h"
#include "rdmacm/device.h"
#include "rdmacm/event_actions.h"
#include "rdmacm/id.h"
#include "verbs/call_guard.h"
#include "verbs/export.h"

namespace uroce::rdmacm {

void Event::keep_connection_data(std::span<const std::byte> data) {
  std::ranges::copy(data, private_data.begin());
  param.conn.private_data = private_data.data();
  param.conn.private_data_len = static_cast<uint8_t>(data.size());
}

void Event::keep_datagram_data(std::span<const std::byte> data) {
  std::ranges::copy(data, private_data.begin());
  param.ud.private_data = private_data.data();
  param.ud.private_data_len = static_cast<uint8_t>(data.size());
}

std::unique_ptr<Event> make_event(rdma_cm_event_type type, int status) {
  auto made = std::make_unique<Event>();
  made->event = type;
  made->status = status;
  return made;
}

namespace {

void put(Id& id, std::unique_ptr<Event> event) {
  // From now on: whoever takes it out of the channel may not have told yet that he has it.
  ++id.unacknowledged;
  object(id.channel).put(std::move(event));
}

}  // namespace

void post(Id& id, std::unique_ptr<Event> event) {
  event->owner = &id;
  event->id = &id;
  put(id, std::move(event));
}

void put_back(Id& id, std::vector<std::unique_ptr<Event>> events) {
  for (auto& event : events) put(id, std::move(event));
}

std::vector<std::unique_ptr<Event>> take_events(Id& id, const std::function<bool(const Event&)>& wanted) {
  std::vector<std::unique_ptr<Event>> taken = object(id.channel).take_of(id, wanted);
  id.unacknowledged -= static_cast<uint32_t>(taken.size());
  return taken;
}

namespace {

/// A peer that is awake answers within that, and then nobody has to be woken.
constexpr auto kTurnsFor = std::chrono::microseconds(100);

/// Who is about to wait for an event turns the pollers that bring it meanwhile, as ibv_poll_cq does; who does
/// not wait, once.
void turn_for_events(const Channel& channel) {
  const int flags = fcntl(channel.fd, F_GETFL);
  const bool waits = flags >= 0 && (flags & O_NONBLOCK) == 0;
  const auto end = std::chrono::steady_clock::now() + kTurnsFor;
  while (channel.signal.empty() && turn_for_services() && waits && std::chrono::steady_clock::now() < end) {
  }
}

/// The next event that the program is to see. Null and errno.
rdma_cm_event* next_event(Channel& channel) {
  for (;;) {
    std::byte signal{};
    turn_for_events(channel);
    if (const int error = channel.signal.pop(&signal); error != 0) return verbs::fail(error);
    std::unique_ptr<Event> event;
    {
      const std::lock_guard guard(core().mutex);
      event = channel.take_first();
    }
    if (event == nullptr) continue;
    if (carry_out(*event)) return event.release();
    acknowledge(*event);
  }
}

}  // namespace

void acknowledge(Event& event) {
  const std::lock_guard guard(core().mutex);
  Id& id = *event.owner;
  --id.unacknowledged;
  if (Group* const group = id.find_group(event.group)) group->heard_of = true;
  core().acknowledged.notify_all();
}

int wait_if_synchronous(Id& id) {
  if (!id.synchronous()) return 0;
  drop_last_event(id);
  id.event = next_event(*id.own_channel);
  if (id.event == nullptr) return errno;
  const int status = id.event->status;
  if (status == 0) return 0;
  return id.event->event == RDMA_CM_EVENT_REJECTED || status > 0 ? ECONNREFUSED : -status;
}

void drop_last_event(Id& id) {
  if (id.event == nullptr) return;
  const std::unique_ptr<Event> last(&object(id.event));
  id.event = nullptr;
  acknowledge(*last);
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
