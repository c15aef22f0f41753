// What an operation costs: one thread posts and polls at both ends of a wire inside the process, so all that
// the operation takes is spent by one CPU. All data are verified, outside of what is measured.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- one_thread --size 4K
//
// perf/run counts the instructions of measured_operations(), and those of measured_far_end() alone.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "apps/perf/failure.h"
#include "apps/perf/pattern.h"
#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {

class OneThread;

// With names that a profiler finds.
extern "C" {
void measured_operations(OneThread& wire, uint64_t operations);
void measured_far_end(OneThread& wire);
}

/// Both ends.
class OneThread {
 public:
  explicit OneThread(const Traffic& traffic)
      : traffic_(traffic), near_(device_names().at(0), traffic), far_(device_names().at(1), traffic) {
    near_.connect(far_);
    far_.connect(near_);
    if (traffic.operation != Operation::kSend) return;
    for (uint32_t receives = 0; receives < Traffic::kOutstanding; receives += Traffic::kBatch)
      far_.post_receives();
  }

  /// `operations` from the first to the last completion; rounded up to whole batches. `far_end` is
  /// turn_far_end(), by whatever name.
  void run(uint64_t operations, void (*far_end)(OneThread&)) {
    for (const uint64_t end = completed_ + operations; completed_ < end;) {
      for (; posted_ < end && posted_ - completed_ < Traffic::kOutstanding; posted_ += Traffic::kBatch)
        near_.post(far_);
      far_end(*this);
      completed_ += near_.poll();
    }
  }

  static void turn_far_end(OneThread& wire) {
    wire.received_ += wire.far_.poll();
    for (; wire.received_ >= Traffic::kBatch; wire.received_ -= Traffic::kBatch) wire.far_.post_receives();
  }

  /// From now on the sources hold what they have not held before.
  void new_data() {
    const bool read = traffic_.operation == Operation::kRead;
    for (uint64_t slot = 0; slot < Traffic::kOutstanding; ++slot)
      fill_pattern((read ? far_ : near_).source(slot), ++seed_);
    fresh_ = posted_;
  }

  /// Everything sent since new_data() is there.
  void verify() {
    RcEnd& to = traffic_.operation == Operation::kRead ? near_ : far_;
    RcEnd& from = traffic_.operation == Operation::kRead ? far_ : near_;
    const uint64_t first = posted_ - std::min(posted_ - fresh_, traffic_.targets());
    for (uint64_t message = first; message < posted_; ++message) {
      if (std::memcmp(to.target(message).data(), from.source(message).data(), traffic_.size) != 0)
        throw Failure(fmt::format("message {} is not what was sent", message));
    }
  }

 private:
  const Traffic traffic_;
  RcEnd near_;
  RcEnd far_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint32_t received_ = 0;
  uint64_t seed_ = 0;
  uint64_t fresh_ = 0;
};

[[gnu::noinline]] void measured_operations(OneThread& wire, uint64_t operations) {
  wire.run(operations, measured_far_end);
}
[[gnu::noinline]] void measured_far_end(OneThread& wire) { OneThread::turn_far_end(wire); }

namespace {

int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Exactly `operations`, or, if there are none, as many as take the time.
void measure(OneThread& wire, uint64_t operations, double seconds) {
  constexpr uint64_t kAtOnce = 1024;
  wire.new_data();
  wire.run(operations != 0 ? operations : kAtOnce, OneThread::turn_far_end);
  wire.verify();
  wire.new_data();
  const int64_t start = cpu_ns();
  int64_t used = 0;
  uint64_t done = 0;
  while (operations != 0 ? done == 0 : static_cast<double>(used) < seconds * 1e9) {
    const uint64_t now = operations != 0 ? operations : kAtOnce;
    measured_operations(wire, now);
    done += now;
    used = cpu_ns() - start;
  }
  wire.verify();
  fmt::print("{{\"operations\": {}, \"cpu_ns_per_operation\": {:.1f}}}\n", done,
             static_cast<double>(used) / static_cast<double>(done));
}

Operation operation_of(const std::string& name) {
  const auto operations = parse_operations(name);
  if (!operations) throw Failure(operations.error().message);
  return operations->front();
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("One thread at both ends of a wire: CPU time per operation, as JSON");
  std::string operation = "write";
  uroce::perf::Traffic traffic;
  uint64_t region_mb = 512;
  uint64_t operations = 0;
  double seconds = 0.5;
  app.add_option("--op", operation)->check(CLI::IsMember({"write", "read", "send"}));
  app.add_option("--size", traffic.size)->transform(CLI::AsSizeValue(false));
  app.add_option("--mtu", traffic.mtu);
  app.add_option("--region-mb", region_mb);
  app.add_option("--operations", operations, "exactly so many, after as many that do not count");
  app.add_option("--seconds", seconds, "of CPU time");
  CLI11_PARSE(app, argc, argv);
  try {
    traffic.operation = uroce::perf::operation_of(operation);
    traffic.region_bytes = region_mb << 20;
    uroce::perf::OneThread wire(traffic);
    uroce::perf::measure(wire, operations, seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "one_thread: {}\n", error.what());
    return 1;
  }
}
