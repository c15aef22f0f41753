#include "apps/perf/plan/options.h"

namespace uroce::perf {

client::DeviceChoice peer_choice_of(const Options& options) {
  client::DeviceChoice choice = options.device;
  choice.name = options.peer_device;
  if (!choice.name.empty()) return choice;
  const std::vector<std::string> names = client::device_names();
  const std::string first = options.device.name.empty() ? names.front() : options.device.name;
  choice.name = first;
  // Another device if there is one: the messages cross a wire then.
  for (const std::string& name : names) {
    if (choice.name == first) choice.name = name;
  }
  return choice;
}

}  // namespace uroce::perf
