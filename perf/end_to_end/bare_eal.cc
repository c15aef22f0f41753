// How long DPDK's EAL takes to start, with the arguments that the stack would use: what a process with a DPDK
// port cannot do without.
#include <fmt/format.h>
#include <rte_eal.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/tables/memory_calls.h"
#include "engine/configuration/configuration.h"
#include "engine/platform/eal.h"

namespace uroce::engine {
namespace {

bool hugepages_free(const Configuration& configuration) {
  const size_t bytes = size_t{configuration.memory_mb} << 20;
  std::byte* const memory = map_memory(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_HUGETLB);
  if (memory == nullptr) return false;
  unmap_memory(memory, bytes);
  return configuration.hugepages;
}

void start_eal_for(const std::vector<std::string>& ports) {
  const Configuration configuration;
  auto arguments = eal_arguments(configuration, ports, hugepages_free(configuration));
  arguments.emplace_back("--log-level=*:1");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  if (rte_eal_init(static_cast<int>(arguments.size()), argv.data()) < 0)
    throw std::runtime_error("rte_eal_init");
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  fmt::print("{{\"open_us\": {:.1f}}}\n", took.count());
}

}  // namespace
}  // namespace uroce::engine

int main(int argc, char** argv) {
  CLI::App app("Starts DPDK's EAL, and says how long that took as JSON");
  std::vector<std::string> ports;
  app.add_option("ports", ports, "devargs of the ports that it is started for");
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::engine::start_eal_for(ports);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_eal: {}\n", error.what());
    return 1;
  }
}
