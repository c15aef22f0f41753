// Pollers no longer touch a NIC that is being removed, but it stays open until the program closes it; vfio
// waits for that. Closing it underneath would need a gate around each burst.
#include "drivers/port/ethdev/removal_watch.h"

// The calls about events of devices are marked experimental in DPDK 22.11.
#define ALLOW_EXPERIMENTAL_API
#include <rte_cycles.h>
#include <rte_dev.h>

#include <cerrno>
#include <cstring>

namespace uroce::drivers {
namespace {

/// On EAL's interrupt thread.
void hear(const char* /*device*/, rte_dev_event_type event, void* removed) {
  if (event != RTE_DEV_EVENT_REMOVE) return;
  // Release: pairs with the acquire of those that look before they give the device up.
  static_cast<std::atomic<bool>*>(removed)->store(true, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<RemovalWatch>> RemovalWatch::start(const std::string& device) {
  std::unique_ptr<RemovalWatch> watch(new RemovalWatch(device));
  const int failed = rte_dev_event_callback_register(device.c_str(), hear, &watch->removed_);
  if (failed != 0)
    return Error{-failed, "cannot be watched for its removal: " + std::string(std::strerror(-failed))};
  return watch;
}

RemovalWatch::~RemovalWatch() {
  // While the function runs it cannot be taken out.
  while (rte_dev_event_callback_unregister(device_.c_str(), hear, &removed_) == -EAGAIN)
    rte_delay_us_sleep(100);
}

}  // namespace uroce::drivers
