#include "engine/platform/processors.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>

namespace uroce::engine {

namespace {

std::vector<uint32_t> affinity_of_this_thread() {
  std::vector<uint32_t> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
    }
  }
  if (processors.empty())
    processors.push_back(0);  // more CPUs than a cpu_set_t holds: leave the choice to CPU 0
  return processors;
}

bool elsewhere(uint32_t cpu, unsigned int node) {
  std::error_code none;  // a kernel without memory nodes, or without /sys: there is one node
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  return !std::filesystem::exists(folder + "/node" + std::to_string(node), none);
}

// Taken when the library is loaded, which is before main() and so before any thread was pinned.
[[gnu::used]] const bool kTakenAtLoad = (allowed_processors(), true);

}  // namespace

const std::vector<uint32_t>& allowed_processors() {
  // Never destroyed: threads may still ask while the process ends.
  static const auto& processors = *new std::vector<uint32_t>(affinity_of_this_thread());
  return processors;
}

uint32_t processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return CPU_SETSIZE;  // more than a cpu_set_t holds
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

std::vector<uint32_t> allowed_processors_nearby() {
  const std::vector<uint32_t>& all = allowed_processors();
  unsigned int cpu = 0;
  unsigned int node = 0;
  std::vector<uint32_t> near;
  if (getcpu(&cpu, &node) == 0)
    std::ranges::remove_copy_if(all, std::back_inserter(near),
                                [node](uint32_t other) { return elsewhere(other, node); });
  return near.empty() ? all : near;
}

}  // namespace uroce::engine
