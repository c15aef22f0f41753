#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::info {

struct Hugepages {
  uint64_t page_kib = 0;
  uint64_t total = 0;
  uint64_t free = 0;
};

/// The hugepages of each size that the kernel knows.
std::vector<Hugepages> hugepages();

/// "Intel(R) Xeon(R) ...", empty when unknown.
std::string processor_name();

/// CPUs that this process may use, as "0-3,6".
std::string usable_cpus();

/// The instruction sets of this CPU, of those that the ICRC and the copies choose from.
std::string instruction_sets();

}  // namespace uroce::info
