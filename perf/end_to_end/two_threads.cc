// What two CPUs do: one thread turns each end of a wire inside the process. Goodput and rate of messages of
// one size, whose data are verified outside of what is measured; or with --ping the round trip of one SEND
// and the next.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- two_threads --size 64K
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include "apps/perf/failure.h"
#include "apps/perf/histogram.h"
#include "perf/end_to_end/traffic_options.h"
#include "perf/end_to_end/wire.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A thread that calls step() over and over, from here to the end of the scope.
template <typename Step>
class Spinning {
 public:
  explicit Spinning(Step step)
      : thread_([this, step] {
          try {
            while (!stop_.load(std::memory_order_relaxed)) step();
          } catch (...) {
            // Written before the thread is joined, and read after.
            failure_ = std::current_exception();
          }
        }) {}
  ~Spinning() {
    if (thread_.joinable()) end();
  }
  Spinning(const Spinning&) = delete;
  Spinning& operator=(const Spinning&) = delete;

  /// Throws what step() threw.
  void join() {
    end();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void end() {
    // Relaxed: nothing hangs on it but the end.
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

void measure_rate(const Traffic& traffic, double seconds) {
  Wire wire(traffic);
  const uint64_t at_once = std::clamp<uint64_t>((64u << 20) / traffic.size, traffic.outstanding, 65536);
  const auto nothing = [](Wire&) {};
  double rate = 0;
  for (const double time : {seconds / 4, seconds}) {  // the first one to warm up
    wire.new_data();
    Spinning far([&wire] { wire.turn_far_end(); });
    uint64_t done = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < time) {
      wire.run(at_once, nothing);
      done += at_once;
    }
    rate = static_cast<double>(done) / seconds_since(start);
    far.join();
    wire.verify();
  }
  fmt::print("{{\"messages_per_second\": {:.6g}, \"gigabits_per_second\": {:.6g}}}\n", rate,
             rate * traffic.size * 8 / 1e9);
}

/// Both ends answer each message that comes with the next.
class PingPong {
 public:
  explicit PingPong(const Traffic& traffic)
      : near_(device_names().at(0), traffic, Part::kBoth), far_(device_names().at(1), traffic, Part::kBoth) {
    near_.connect(far_);
    far_.connect(near_);
    near_.post_receives();
    far_.post_receives();
  }

  void answer() { serve(far_, near_); }

  Histogram run(double seconds) {
    Histogram samples;
    const auto start = Clock::now();
    for (auto sent = start; seconds_since(start) < seconds; sent = Clock::now()) {
      near_.post(far_);
      wait_for_answer(sent);
      samples.record(static_cast<uint64_t>((Clock::now() - sent).count()));
      near_.post_receives();
    }
    return samples;
  }

 private:
  void wait_for_answer(Clock::time_point sent) {
    constexpr double kPatienceSeconds = 30;
    for (uint32_t polls = 1; near_.poll().received == 0; ++polls) {
      if (polls % 65536 == 0 && seconds_since(sent) > kPatienceSeconds)
        throw Failure("no answer from the other end");
    }
  }

  static void serve(RcEnd& here, const RcEnd& there) {
    if (here.poll().received == 0) return;
    here.post_receives();
    here.post(there);
  }

  RcEnd near_;
  RcEnd far_;
};

void measure_round_trips(Traffic traffic, double seconds) {
  traffic.operation = Operation::kSend;
  traffic.batch = 1;
  traffic.outstanding = 4;
  traffic.region_bytes = 4 * traffic.stride();
  PingPong ping_pong(traffic);
  Spinning far([&ping_pong] { ping_pong.answer(); });
  ping_pong.run(seconds / 4);
  const Histogram samples = ping_pong.run(seconds);
  far.join();
  fmt::print("{{\"round_trip_p50_us\": {:.4f}, \"round_trip_p99_us\": {:.4f}}}\n",
             static_cast<double>(samples.percentile(50)) / 1000,
             static_cast<double>(samples.percentile(99)) / 1000);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("A thread at each end of a wire: goodput and rate, or round trips, as JSON");
  const uroce::perf::TrafficOptions asked(app);
  double seconds = 0.5;
  bool ping = false;
  app.add_flag("--ping", ping, "round trips of SENDs");
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    const uroce::perf::Traffic traffic = asked.traffic();
    ping ? uroce::perf::measure_round_trips(traffic, seconds) : uroce::perf::measure_rate(traffic, seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "two_threads: {}\n", error.what());
    return 1;
  }
}
