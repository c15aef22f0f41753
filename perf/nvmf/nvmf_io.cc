// What I/O over NVMe-oF takes: an initiator and a target at the two ends of a wire inside the process, turned
// by one thread (CPU time of both together) or by one each; or in two processes, --serve and --connect. Data
// are verified, outside of what is measured.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- nvmf_io --driver ram
//
// perf/run counts the instructions of measured_io().
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "client/failure.h"
#include "perf/nvmf/exported.h"
#include "perf/nvmf/initiator.h"

namespace uroce::perf {
namespace {

struct Options {
  IoTraffic traffic;
  IoPlace place{.target_address = "192.0.2.2", .own_address = "192.0.2.1"};
  std::string driver = "ram";
  std::string path;
  uint32_t threads = 1;
  bool serve = false;
  bool connect = false;
  uint64_t commands = 0;
  double seconds = 0.5;

  [[nodiscard]] drivers::BlockSpecification device() const {
    return device_of(driver, path, place.namespace_bytes);
  }
};

int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct Measured {
  Initiator::Done done;
  double cpu_ns = 0;
};

}  // namespace

// With a name that a profiler finds.
template <typename FarEnd>
[[gnu::noinline]] Measured measured_io(Initiator& initiator, const Options& options, FarEnd far_end) {
  const int64_t start = cpu_ns();
  const Initiator::Done done = initiator.run(options.seconds, options.commands, far_end);
  return {done, static_cast<double>(cpu_ns() - start)};
}

namespace {

template <typename FarEnd>
void measure(Initiator& initiator, const Options& options, FarEnd far_end) {
  initiator.prepare(far_end);
  initiator.run(options.seconds / 4, options.commands, far_end);  // to warm up
  initiator.verify(far_end);
  initiator.prepare(far_end);
  const Measured measured = measured_io(initiator, options, far_end);
  initiator.verify(far_end);
  const auto commands = static_cast<double>(measured.done.commands);
  const client::Histogram& latencies = initiator.latencies();
  fmt::print(
      "{{\"commands\": {}, \"iops\": {:.6g}, \"cpu_us\": {:.4f}, \"latency_p50_us\": {:.3f}, "
      "\"latency_p99_us\": {:.3f}}}\n",
      measured.done.commands, commands / measured.done.seconds, measured.cpu_ns / commands / 1000,
      static_cast<double>(latencies.percentile(50)) / 1000,
      static_cast<double>(latencies.percentile(99)) / 1000);
}

/// Does on another thread what waits for the target, which this one turns meanwhile.
template <typename Action>
void aside(Exported& exported, Action action) {
  constexpr auto kNow = std::chrono::seconds(0);
  auto done = std::async(std::launch::async, action);
  while (done.wait_for(kNow) != std::future_status::ready) exported.turn();
  done.get();
}

/// One thread turns both, but for connecting and for the end, when each waits for the other.
void measure_one_thread(const Options& options) {
  Exported exported(options.device(), options.place, false);
  std::optional<Initiator> initiator;
  const auto end = [&] {
    initiator.reset();
    exported.stop();
  };
  try {
    aside(exported, [&] { initiator.emplace(options.traffic, options.place); });
    measure(*initiator, options, [&exported] { exported.turn(); });
  } catch (...) {
    aside(exported, end);
    throw;
  }
  aside(exported, end);
}

void measure_two_threads(const Options& options) {
  Exported exported(options.device(), options.place, true);
  Initiator initiator(options.traffic, options.place);
  measure(initiator, options, [] {});
}

void connect(const Options& options) {
  Initiator initiator(options.traffic, options.place);
  measure(initiator, options, [] {});
}

/// For one initiator, until it has gone.
void serve(const Options& options) {
  constexpr auto kLook = std::chrono::milliseconds(10);
  Exported exported(options.device(), options.place, true);
  fmt::print("listening\n");
  std::fflush(stdout);
  while (!exported.has_hosts()) std::this_thread::sleep_for(kLook);
  while (exported.has_hosts()) std::this_thread::sleep_for(kLook);
}

void run(const Options& options) {
  if (options.serve) return serve(options);
  if (options.connect) return connect(options);
  options.threads == 1 ? measure_one_thread(options) : measure_two_threads(options);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("I/O over NVMe-oF between two ends of a wire: rate, latency and CPU time, as JSON");
  uroce::perf::Options options;
  uint64_t namespace_mb = options.place.namespace_bytes >> 20;
  bool sequential = false;
  bool verify = false;
  app.add_option("--driver", options.driver)->check(CLI::IsMember({"null", "ram", "file"}));
  app.add_option("--path", options.path, "of the file");
  app.add_option("--namespace-mb", namespace_mb, "size of the namespace; of the file, too");
  app.add_flag("--write", options.traffic.write);
  app.add_flag("--fast-registration", options.traffic.registered,
               "each command's memory is registered for it alone, in place of one region that the target may "
               "always access");
  app.add_flag("--in-capsule", options.traffic.in_capsule, "writes bring their data with the command");
  app.add_flag("--sequential", sequential);
  app.add_option("--size", options.traffic.bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("--depth", options.traffic.depth)->check(CLI::Range(1u, uroce::perf::kIoEntriesMax - 1));
  app.add_option("--threads", options.threads, "1: turns both ends; 2: one each")->check(CLI::Range(1, 2));
  app.add_flag("--serve", options.serve, "the target only, for one initiator");
  app.add_flag("--connect", options.connect, "the initiator only");
  app.add_option("--target-address", options.place.target_address);
  app.add_option("--own-address", options.place.own_address, "of the initiator");
  app.add_option("--commands", options.commands, "exactly so many, after as many that do not count");
  app.add_option("--seconds", options.seconds);
  app.add_flag("--verify", verify, "also what the driver null keeps, which is nothing: it fails");
  CLI11_PARSE(app, argc, argv);
  options.place.namespace_bytes = namespace_mb << 20;
  options.traffic.random = !sequential;
  options.traffic.verified = verify || options.driver != "null";
  try {
    uroce::perf::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "nvmf_io: {}\n", error.what());
    return 1;
  }
}
