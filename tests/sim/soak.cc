// Many simulated worlds, on all cores: each from a seed of its own, in a process of its own, for a process
// has one virtual clock, and what fails may end it.
#include <fmt/format.h>
#include <getopt.h>
#include <spawn.h>
#include <sys/wait.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

constexpr uint64_t kWorlds = 10'000;

qp::CongestionOptions any_congestion(Random& random) {
  return {.control = static_cast<qp::CongestionControl>(random.below(qp::kCongestionAlgorithmCount))};
}

/// What CI does not have the time for: more queue pairs, longer flows, all sorts of machines together.
Simulation::Options world_of(uint64_t seed) {
  Random random(seed * 32'452'843);
  Simulation::Options world{.seed = seed,
                            .conditions = any_conditions(random),
                            .machines = any_machines(random),
                            .congestion = any_congestion(random)};
  switch (random.below(5)) {
    case 0:
      world.connections = 8 + static_cast<uint32_t>(random.below(40));
      world.messages = 50;
      break;
    case 1:
      world.connections = 1 + static_cast<uint32_t>(random.below(qp::kCongestionAlgorithmCount));
      world.messages = 1'000;
      break;
    case 2:
      // Threads take over from each other: the seed does not say everything.
      world.conditions.loss /= 4;
      world.machines.starvation = {};
      world.machines.background_thread = true;
      world.messages = 100;
      break;
    case 3:
      // Wrong keys end connections; each meets one, and some have UC and UD beside them.
      world.conditions = {.loss = random.below(2'000)};
      world.messages = 1'000;
      world.timeout = 5;
      world.congestion = {};
      world.errors_expected = true;
      world.spoil = 1 + static_cast<uint32_t>(random.below(50));
      world.unanswered = random.chance(1, 3);
      break;
    default:
      world.unanswered = true;
      world.messages = 100;
  }
  // A world of it may take much virtual time: its windows are small where round trips vary.
  if (world.congestion.control == qp::CongestionControl::kSwift) world.messages /= 10;
  return world;
}

/// In this process. The exit status.
int run_world(uint64_t seed) {
  std::string wrong;
  {
    Simulation simulation(world_of(seed));
    wrong = simulation.run();
  }
  if (wrong.empty() && Frame::alive != 0) wrong = "frames were not given back";
  if (wrong.empty()) return 0;
  fmt::print(stderr, "seed {}, at {} ns: {}\n", seed, VirtualClock::now().ns, wrong);
  return 1;
}

/// In a process of its own. True: all was well.
bool passes(const char* program, uint64_t seed) {
  std::string seed_text = std::to_string(seed);
  std::string seed_option = "--seed";
  std::string name = program;
  const std::array<char*, 4> arguments = {name.data(), seed_option.data(), seed_text.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run_worlds(const char* program, uint64_t first, uint64_t worlds) {
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> done{0};
  tbb::parallel_for(first, first + worlds, [&](uint64_t seed) {
    // Relaxed: counts alone.
    if (!passes(program, seed)) {
      failed.fetch_add(1, std::memory_order_relaxed);
      fmt::print("seed {} has failed; once more: {} --seed {}\n", seed, program, seed);
      std::fflush(stdout);
    }
    constexpr uint64_t kReported = 1'000;
    const uint64_t now = done.fetch_add(1, std::memory_order_relaxed) + 1;
    if (now % kReported == 0) fmt::print("{} of {} worlds\n", now, worlds);
  });
  fmt::print("{} worlds, {} failed\n", worlds, failed.load());
  return failed.load() == 0 ? 0 : 1;
}

int usage(const char* program) {
  fmt::print(stderr,
             "{} [--worlds N] [--first SEED]   N worlds ({}) on all cores\n"
             "{} --seed SEED                   one of them, in this process\n",
             program, kWorlds, program);
  return 2;
}

int main(int count, char** arguments) {
  const std::array<option, 4> options = {{{"worlds", required_argument, nullptr, 'w'},
                                          {"first", required_argument, nullptr, 'f'},
                                          {"seed", required_argument, nullptr, 's'},
                                          {}}};
  uint64_t worlds = kWorlds;
  uint64_t first = 1;
  uint64_t only = 0;
  for (int letter; (letter = getopt_long(count, arguments, "", options.data(), nullptr)) != -1;) {
    if (letter == '?') return usage(arguments[0]);
    char* end = nullptr;
    const uint64_t number = std::strtoull(optarg, &end, 0);
    if (*end != '\0' || number == 0) return usage(arguments[0]);
    (letter == 'w' ? worlds : letter == 'f' ? first : only) = number;
  }
  if (optind != count) return usage(arguments[0]);
  return only != 0 ? run_world(only) : run_worlds(arguments[0], first, worlds);
}

}  // namespace
}  // namespace uroce::sim

int main(int count, char** arguments) { return uroce::sim::main(count, arguments); }
