#include "verbs/control/port_facts.h"

#include <fmt/format.h>

#include <cerrno>

#include "engine/device/device.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "wire/address_text.h"

using namespace uroce;

namespace {

std::string idle_text(const engine::Device::Information& information) {
  using engine::PollerIdle;
  const bool dedicated = information.poller_mode == engine::PollerMode::kDedicated;
  switch (information.poller_idle) {
    case PollerIdle::kInterrupt:
      return information.frame_events == 0 ? "interrupt: sleep, woken at the bell of the host service"
                                           : fmt::format("interrupt: sleep, woken by frames ({} descriptors)",
                                                         information.frame_events);
    case PollerIdle::kYield:
      return dedicated ? "yield: offer their CPU" : "yield: offer their CPU, then sleep for up to 4 ms";
    case PollerIdle::kSpin:
      return dedicated ? "spin: keep their CPU" : "spin: keep their CPU, then sleep for up to 4 ms";
    case PollerIdle::kAuto:
      break;
  }
  return dedicated ? "auto: keep their CPU, or offer it where fewer than two are left"
                   : "auto: spin or yield, then sleep for up to 4 ms";
}

}  // namespace

extern "C" {

UROCE_EXPORT int uroce_port_facts(ibv_context* face, uint8_t port, PortFactSink sink, void* to) {
  if (face == nullptr || sink == nullptr) return EINVAL;
  const verbs::VerbsContext& context = verbs::object(face);
  if (!context.alive()) return EIO;
  if (port != 1) return EINVAL;
  const engine::Device& device = *context.device;
  const port::Capabilities& carries = device.port_capabilities();
  const auto tell = [&](const char* name, const std::string& value) { sink(to, name, value.c_str()); };
  tell("driver", carries.description);
  tell("MAC", wire::to_text(device.mac()));
  tell("link MTU", fmt::format("{}, frames up to {} bytes{}{}", carries.link_mtu, carries.frame_bytes_max,
                               carries.link_mtu_reason.empty() ? "" : ": ", carries.link_mtu_reason));
  tell("queues", fmt::format("{} of {}", carries.queues, carries.queues_max));
  tell("idle pollers", idle_text(device.information()));
  for (const std::string& line : carries.offloads) tell("offloads", line);
  if (carries.in_process) tell("far end", "in this process");
  if (device.far_end() != port::FarEnd::kUnknown)
    tell("far end", device.far_end() == port::FarEnd::kConnected ? "connected" : "not connected");
  return 0;
}
}
