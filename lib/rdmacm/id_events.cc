#include "rdmacm/id_events.h"

#include <mutex>
#include <utility>

#include "rdmacm/core.h"
#include "rdmacm/id.h"

namespace uroce::rdmacm {

namespace {

void put(Id& id, std::unique_ptr<Event> event) {
  // From now on: a thread that takes it out of the channel may not have told yet that it has it.
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

void acknowledge(Event& event) {
  const std::lock_guard guard(core().mutex);
  Id& id = *event.owner;
  --id.unacknowledged;
  if (Group* const group = id.find_group(event.group)) group->heard_of = true;
  core().acknowledged.notify_all();
}

void drop_last_event(Id& id) {
  if (id.event == nullptr) return;
  const std::unique_ptr<Event> last(&object(id.event));
  id.event = nullptr;
  acknowledge(*last);
}

}  // namespace uroce::rdmacm
