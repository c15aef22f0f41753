// What two CPUs do: one thread turns each end of a wire inside the process. Goodput and rate of messages of
// one size, whose data are verified outside of what is measured; or with --ping round trips: a SEND or WRITE
// and the next, or a READ.
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

#include "client/failure.h"
#include "client/histogram.h"
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

/// A SEND or a WRITE that the far end answers with the next, or a READ.
class RoundTrips {
 public:
  explicit RoundTrips(const Traffic& traffic)
      : operation_(traffic.operation),
        near_{.end = RcEnd(client::device_names().at(0), traffic, Part::kBoth)},
        far_{.end = RcEnd(client::device_names().at(1), traffic, Part::kBoth)} {
    near_.end.connect(far_.end);
    far_.end.connect(near_.end);
    for (Side* side : {&near_, &far_}) {
      if (operation_ == Operation::kSend) side->end.post_receives();
      for (uint64_t i = 0; i < traffic.targets(); ++i) side->end.target(i).back() = kNoMark;
    }
  }

  /// The far end's part, over and over.
  void answer() {
    if (!look(far_) || operation_ == Operation::kRead) return;
    take(far_);
    post(far_, near_);
  }

  client::Histogram run(double seconds) {
    client::Histogram samples;
    const auto start = Clock::now();
    for (auto sent = start; seconds_since(start) < seconds; sent = Clock::now()) {
      post(near_, far_);
      wait_for_answer(sent);
      samples.record(static_cast<uint64_t>((Clock::now() - sent).count()));
      take(near_);
    }
    return samples;
  }

 private:
  struct Side {
    RcEnd end;
    uint64_t posted = 0;
    uint64_t taken = 0;
  };
  // In the last byte of a WRITE.
  static constexpr std::byte kNoMark{0};
  static std::byte mark(uint64_t message) { return static_cast<std::byte>(1 + message % 251); }

  void post(Side& side, const Side& peer) const {
    if (operation_ == Operation::kWrite) side.end.source(side.posted).back() = mark(side.posted);
    ++side.posted;
    side.end.post(peer.end);
  }
  /// True when the next message has come, or the READ's answer.
  bool look(Side& side) const {
    const RcEnd::Found found = side.end.poll();
    if (operation_ == Operation::kSend) return found.received != 0;
    if (operation_ == Operation::kRead) return found.completed != 0;
    // Acquire: the message's other bytes were stored before its last one.
    const std::atomic_ref last(side.end.target(side.taken).back());
    return last.load(std::memory_order_acquire) == mark(side.taken);
  }
  void take(Side& side) const {
    ++side.taken;
    if (operation_ == Operation::kSend) side.end.post_receives();
  }
  void wait_for_answer(Clock::time_point sent) {
    constexpr double kPatienceSeconds = 30;
    for (uint32_t polls = 1; !look(near_); ++polls) {
      if (polls % 65536 == 0 && seconds_since(sent) > kPatienceSeconds)
        throw client::Failure("no answer from the other end");
    }
  }

  const Operation operation_;
  Side near_;
  Side far_;
};

void measure_round_trips(Traffic traffic, double seconds) {
  traffic.batch = 1;
  traffic.outstanding = 4;
  traffic.region_bytes = 4 * traffic.stride();
  RoundTrips round_trips(traffic);
  Spinning far([&round_trips] { round_trips.answer(); });
  round_trips.run(seconds / 4);
  const client::Histogram samples = round_trips.run(seconds);
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
  app.add_flag("--ping", ping, "round trips");
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
