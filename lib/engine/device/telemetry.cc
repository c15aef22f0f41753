#include "engine/device/telemetry.h"

#include <rte_telemetry.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "base/counters/counter_texts.h"
#include "drivers/dpdk_versions.h"
#include "host/control.h"

namespace uroce::engine {
namespace {

struct Shown {
  std::mutex mutex;
  std::set<host::OwnStatistics*> all;
};

Shown& shown() {
  static Shown& the = *new Shown;  // never destroyed: DPDK's thread goes on until the very end
  return the;
}

/// Calls use(statistics, index of the device) for each device.
template <typename Use>
void for_each_device(Use use) {
  Shown& open = shown();
  const std::lock_guard guard(open.mutex);
  for (host::OwnStatistics* statistics : open.all)
    for (uint32_t i = 0; i < statistics->header().devices; ++i) use(*statistics, i);
}

int list_devices(const char*, const char*, rte_tel_data* answer) {
  rte_tel_data_start_array(answer, RTE_TEL_STRING_VAL);
  for_each_device([&](host::OwnStatistics& statistics, uint32_t device) {
    rte_tel_data_add_array_string(answer, statistics.device(device).name.data());
  });
  return 0;
}

/// Sums of all pollers of the device that `name` says.
int list_counters(const char*, const char* name, rte_tel_data* answer) {
  bool found = false;
  for_each_device([&](host::OwnStatistics& statistics, uint32_t device) {
    const host::DeviceShown& one = statistics.device(device);
    if (name == nullptr || found || host::text_of(one.name) != name) return;
    found = true;
    rte_tel_data_start_dict(answer);
    for (size_t i = 0; i < kCounterCount; ++i) {
      const auto counter = static_cast<Counter>(i);
      uint64_t sum = 0;
      for (uint32_t poller = 0; poller < one.pollers; ++poller)
        sum += statistics.counters(device, poller).read(counter);
      dpdk::add_to_dictionary(answer, std::string(texts_of(counter).label).c_str(), sum);
    }
  });
  return found ? 0 : -EINVAL;
}

}  // namespace

void show_in_telemetry(host::OwnStatistics& statistics) {
  Shown& open = shown();
  const std::lock_guard guard(open.mutex);
  open.all.insert(&statistics);
  static const int registered =
      rte_telemetry_register_cmd("/uroce/devices", list_devices, "Names of uroce's devices. No parameter") +
      rte_telemetry_register_cmd("/uroce/counters", list_counters,
                                 "Counters of a device. Parameter: its name");
  (void)registered;
}

void forget_in_telemetry(host::OwnStatistics& statistics) {
  Shown& open = shown();
  const std::lock_guard guard(open.mutex);
  open.all.erase(&statistics);
}

}  // namespace uroce::engine
