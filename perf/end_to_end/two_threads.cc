// What two CPUs do: one thread turns each end of a wire inside the process. Goodput and rate of messages of
// one size, whose data are verified outside of what is measured; or with --ping round trips: a SEND or WRITE
// and the next, or a READ.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- two_threads --size 64K
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include "client/failure.h"
#include "client/histogram.h"
#include "perf/end_to_end/round_trip_end.h"
#include "perf/end_to_end/spinning.h"
#include "perf/end_to_end/traffic_options.h"
#include "perf/end_to_end/wire.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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

/// Both ends of them.
class RoundTrips {
 public:
  explicit RoundTrips(const Traffic& traffic)
      : near_(client::device_names().at(0), traffic), far_(client::device_names().at(1), traffic) {
    near_.connect(far_.place(), far_.numbers());
    far_.connect(near_.place(), near_.numbers());
  }

  void answer() { far_.answer(); }
  client::Histogram run(double seconds) { return near_.run(seconds); }

 private:
  RoundTripEnd near_;
  RoundTripEnd far_;
};

void measure_round_trips(Traffic traffic, double seconds) {
  traffic = RoundTripEnd::of_single_messages(traffic);
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
