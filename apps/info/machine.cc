#include "apps/info/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace uroce::info {
namespace {

namespace fs = std::filesystem;

uint64_t number_in(const fs::path& path) {
  uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

}  // namespace

std::vector<Hugepages> hugepages() {
  constexpr std::string_view kPrefix = "hugepages-";
  std::vector<Hugepages> sizes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/kernel/mm/hugepages", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    sizes.push_back({.page_kib = std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10),
                     .total = number_in(entry.path() / "nr_hugepages"),
                     .free = number_in(entry.path() / "free_hugepages")});
  }
  std::ranges::sort(sizes, {}, &Hugepages::page_kib);
  return sizes;
}

std::string processor_name() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "unknown";
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last != cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  return text;
}

std::string instruction_sets() {
  std::string text;
  const auto add = [&](bool there, std::string_view name) {
    if (there) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  };
  add(__builtin_cpu_supports("sse4.2") != 0, "SSE4.2");
  add(__builtin_cpu_supports("pclmul") != 0, "PCLMULQDQ");
  add(__builtin_cpu_supports("avx2") != 0, "AVX2");
  add(__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0, "AVX-512");
  add(__builtin_cpu_supports("vpclmulqdq") != 0, "VPCLMULQDQ");
  return text;
}

}  // namespace uroce::info
