#include "engine/processors.h"

#include <sched.h>

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

// Taken when the library is loaded, which is before main() and so before any thread was pinned.
[[gnu::used]] const bool kTakenAtLoad = (allowed_processors(), true);

}  // namespace

const std::vector<uint32_t>& allowed_processors() {
  // Never destroyed: threads may still ask while the process ends.
  static const auto& processors = *new std::vector<uint32_t>(affinity_of_this_thread());
  return processors;
}

}  // namespace uroce::engine
