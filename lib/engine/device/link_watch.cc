// A thread looks at links ten times a second, because drivers report changes in ways of their own or not at
// all. IBV_EVENT_PORT_ERR and PORT_ACTIVE go to every open context, DEVICE_FATAL when the interface is gone.
#include "engine/device/link_watch.h"

#include <utility>

#include "engine/device/device.h"
#include "engine/device/device_state.h"

namespace uroce::engine {

void LinkWatch::add(DeviceState& device) {
  if (device.port->link_changes())
    links_.push_back({.device = &device, .up = device.port->link_up(), .gone = device.port->gone()});
}

Status LinkWatch::start() {
  if (links_.empty()) return {};
  for (Link& link : links_) tell_speed(link);
  auto thread = Thread::start("uroce-links", {}, [this] {
    // Relaxed: it only needs to be seen some time; joining orders the rest.
    while (!stopping_.load(std::memory_order_relaxed)) {
      sleep_.park(kLookEvery.ns);
      look();
    }
  });
  if (!thread) return thread.error();
  thread_.emplace(std::move(*thread));
  return {};
}

void LinkWatch::look() {
  for (Link& link : links_) {
    const port::Port& port = *link.device->port;
    const bool up = port.link_up();
    if (std::exchange(link.up, up) != up)
      link.device->listeners.raise(up ? DeviceEvent::kPortActive : DeviceEvent::kPortError);
    if (up) tell_speed(link);
    if (!link.gone && port.gone()) {
      link.gone = true;
      link.device->listeners.raise(DeviceEvent::kFatal);
      link.device->end_queue_pairs();
    }
  }
}

void LinkWatch::tell_speed(Link& link) {
  const uint32_t mbps = link.device->port->link_mbps();
  if (std::exchange(link.mbps, mbps) != mbps) link.device->tell_speed(mbps);
}

void LinkWatch::stop() {
  stopping_.store(true, std::memory_order_relaxed);  // see start()
  sleep_.wake();
  if (thread_) thread_->join();
}

void LinkWatch::abandon() {
  if (thread_) thread_->abandon();
}

}  // namespace uroce::engine
