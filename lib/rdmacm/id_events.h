#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "rdmacm/event.h"

// The events of an id on their way through its channel.
namespace uroce::rdmacm {

/// Puts it into the id's channel, with the core's mutex held.
void post(Id& id, std::unique_ptr<Event> event);

/// Takes the id's events for which `wanted` says so out of its channel, with the core's mutex held. A thread
/// in rdma_get_cm_event may have one all the same.
std::vector<std::unique_ptr<Event>> take_events(
    Id& id, const std::function<bool(const Event&)>& wanted = [](const Event&) { return true; });
/// What was taken out of another channel, with the core's mutex held.
void put_back(Id& id, std::vector<std::unique_ptr<Event>> events);

/// The program is done with it.
void acknowledge(Event& event);
/// Acknowledges the event that a synchronous id holds, if any.
void drop_last_event(Id& id);

}  // namespace uroce::rdmacm
