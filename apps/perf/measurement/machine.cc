#include "apps/perf/measurement/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "apps/info/machine.h"

namespace uroce::perf {
namespace {

std::string first_line_of(const char* path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

}  // namespace

Description describe_machine() {
  utsname system{};
  uname(&system);
  double load = 0;
  getloadavg(&load, 1);
  const auto pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGE_SIZE));
  Description all = {{"time", now()},
                     {"host", system.nodename},
                     {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
                     {"cpu", info::processor_name()},
                     {"usable_cpus", info::usable_cpus()},
                     {"memory", fmt::format("{:.1f} GiB", pages * page_bytes / (1u << 30))},
                     {"load", fmt::format("{:.2f}", load)}};
  for (const auto& [name, path] :
       {std::pair{"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
        {"virtual_machine", "/sys/class/dmi/id/product_name"}})
    if (const std::string line = first_line_of(path); !line.empty()) all.emplace_back(name, line);
  return all;
}

Description describe(const client::VerbsDevice& device) {
  Description all = {{"device", device.name}, {"gid_index", std::to_string(device.gid_index)}};
  if (device.limits.fw_ver[0] != '\0') all.emplace_back("firmware", device.limits.fw_ver);
  all.emplace_back("vendor",
                   fmt::format("{:#x} part {:#x}", device.limits.vendor_id, device.limits.vendor_part_id));
  return all;
}

}  // namespace uroce::perf
