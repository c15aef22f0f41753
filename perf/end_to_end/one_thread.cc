// What an operation costs: one thread posts and polls at both ends of a wire inside the process, so all that
// the operation takes is spent by one CPU. All data are verified, outside of what is measured.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- one_thread --size 4K
//
// perf/run counts the instructions of measured_operations(), and those of measured_far_end() alone.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>

#include "perf/end_to_end/traffic_options.h"
#include "perf/end_to_end/wire.h"

namespace uroce::perf {

// With names that a profiler finds.
extern "C" {
void measured_operations(Wire& wire, uint64_t operations);
void measured_far_end(Wire& wire);
}

[[gnu::noinline]] void measured_operations(Wire& wire, uint64_t operations) {
  wire.run(operations, measured_far_end);
}
[[gnu::noinline]] void measured_far_end(Wire& wire) { wire.turn_far_end(); }

namespace {

int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Memory of the process that is in RAM.
uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// What both ends have in common, and what each of so many queue pairs adds.
struct Made {
  double seconds = 0;
  double bytes_per_queue_pair = 0;
  uint64_t resident = 0;  // bytes of the process, then
};

/// Exactly `operations`, or, if there are none, as many as take the time, `at_once` of them at once; behind
/// `before` that do not count.
void measure(Wire& wire, const Made& made, uint64_t before, uint64_t operations, uint64_t at_once,
             double seconds) {
  wire.new_data();
  // Not by measured_far_end(), whose instructions count.
  wire.run(before, [](Wire& it) { it.turn_far_end(); });
  wire.verify();
  wire.new_data();
  const auto began = std::chrono::steady_clock::now();
  const int64_t start = cpu_ns();
  int64_t used = 0;
  uint64_t done = 0;
  while (operations != 0 ? done == 0 : static_cast<double>(used) < seconds * 1e9) {
    const uint64_t now = operations != 0 ? operations : at_once;
    measured_operations(wire, now);
    done += now;
    used = cpu_ns() - start;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  wire.verify();
  fmt::print(
      "{{\"operations\": {}, \"cpu_ns_per_operation\": {:.1f}, \"operations_per_second\": {:.0f}, "
      "\"made_in_seconds\": {:.3f}, "
      "\"bytes_per_queue_pair\": {:.0f}, \"made_bytes\": {}, \"used_bytes\": {}}}\n",
      done, static_cast<double>(used) / static_cast<double>(done), static_cast<double>(done) / took.count(),
      made.seconds, made.bytes_per_queue_pair, made.resident, resident_bytes());
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("One thread at both ends of a wire: CPU time per operation, as JSON");
  const uroce::perf::TrafficOptions asked(app);
  uint64_t operations = 0;
  double seconds = 0.5;
  bool make_only = false;
  app.add_option("--operations", operations, "exactly so many, after as many that do not count");
  app.add_option("--seconds", seconds, "of CPU time");
  app.add_flag("--make-only", make_only, "make and connect the queue pairs");
  CLI11_PARSE(app, argc, argv);
  try {
    const uroce::perf::Traffic traffic = asked.traffic();
    const uint64_t before = uroce::perf::resident_bytes();
    const auto began = std::chrono::steady_clock::now();
    uroce::perf::Wire wire(traffic);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const uint64_t queue_pairs = uint64_t{2} * traffic.queue_pairs;
    const uint64_t resident = uroce::perf::resident_bytes();
    const uroce::perf::Made made{
        .seconds = took.count(),
        .bytes_per_queue_pair = static_cast<double>(resident - before) / static_cast<double>(queue_pairs),
        .resident = resident};
    if (make_only) {
      fmt::print("{{\"made_in_seconds\": {:.3f}, \"made_bytes\": {}}}\n", made.seconds, made.resident);
      return 0;
    }
    // Enough for the clock not to matter.
    constexpr uint64_t kBytesAtOnce = 64 << 20;
    const uint64_t of_each = uint64_t{traffic.queue_pairs} * traffic.batch;  // a turn
    const uint64_t at_once = std::clamp<uint64_t>(kBytesAtOnce / traffic.size, traffic.outstanding,
                                                  std::max<uint64_t>(1024, of_each));
    const uint64_t uncounted = operations != 0 ? operations : std::max(at_once, of_each);
    uroce::perf::measure(wire, made, uncounted, operations, at_once, seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "one_thread: {}\n", error.what());
    return 1;
  }
}
