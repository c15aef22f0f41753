#include "verbs/posting/wire_hint.h"

#include <atomic>

#include "drivers/registry.h"
#include "engine/device/stack.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/standard_streams.h"

namespace uroce::verbs {

void hint_at_wire(ibv_device& device, const std::string& missing) {
  const Result<engine::Stack*> stack = engine::Stack::instance();
  if (!stack) return;
  const auto& devices = stack.value()->configuration().devices;
  if (drivers::wire_of(devices.at(object(&device).index).port).empty()) return;
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  complain(
      std::string(device.name) + ": " + missing +
          ": the wire of this device does not leave the process; `man uroce` says how processes are joined",
      device.name);
}

}  // namespace uroce::verbs
