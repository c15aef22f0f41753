// What queue pairs with short messages keep beside one with long ones: a thread turns each end of a wire
// inside the process, and posts WRITEs of 64 B on 100 queue pairs, one at a time on each, of 1 MiB on one,
// and both. With --rare-us it posts one of 64 B each so many microseconds, and measures how long that one
// takes. All data are verified, outside of what is measured.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- mixed_sizes
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "client/histogram.h"
#include "perf/end_to_end/figures.h"
#include "perf/end_to_end/spinning.h"
#include "perf/end_to_end/wire.h"

namespace uroce::perf {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Mix {
  uint32_t long_bytes = 1 << 20;
  uint32_t long_queue_pairs = 1;
  uint32_t short_bytes = 64;
  uint32_t short_queue_pairs = 100;
  uint32_t rare_us = 0;  // between two short messages; 0: as many as go
  double seconds = 0.5;
  bool one_thread = false;
};

/// Messages of which one is due each interval. It takes from when it is due until it is complete. One that
/// falls due while another one is under way is left out, so that a pause of this process makes one late.
class RareMessages {
 public:
  RareMessages(Wire& wire, std::chrono::microseconds interval) : wire_(wire), interval_(interval) {}

  void begin() {
    took_.clear();
    due_ = Clock::now() + interval_;
  }
  /// Messages that it completed.
  uint64_t step() {
    if (wire_.is_idle() && Clock::now() < due_) {
      wire_.drain();
      return 0;
    }
    const uint64_t completed = wire_.is_idle() ? wire_.step() : wire_.drain();
    if (completed != 0) {
      const auto took = Clock::now() - due_;
      took_.record(static_cast<uint64_t>(std::chrono::nanoseconds(took).count()));
      due_ += (took / interval_ + 1) * interval_;
    }
    return completed;
  }
  [[nodiscard]] const client::Histogram& took() const { return took_; }

 private:
  using Clock = std::chrono::steady_clock;

  Wire& wire_;
  std::chrono::microseconds interval_;
  Clock::time_point due_;
  client::Histogram took_;
};

/// Messages per second of each, alone and beside the others.
class MixedWires {
 public:
  explicit MixedWires(const Mix& mix)
      : mix_(mix),
        long_({.size = mix.long_bytes,
               .queue_pairs = mix.long_queue_pairs,
               .batch = 1,
               .outstanding = 4 * mix.long_queue_pairs}),
        short_({.size = mix.short_bytes,
                .region_bytes = 64u << 20,
                .queue_pairs = mix.short_queue_pairs,
                .batch = 1,
                .outstanding = mix.rare_us != 0 ? 1 : mix.short_queue_pairs}) {
    if (mix.rare_us != 0) rare_.emplace(short_, std::chrono::microseconds(mix.rare_us));
  }

  /// Messages per second.
  struct Rates {
    double of_long = 0;
    double of_short = 0;
    double rare_p50_us = 0;  // what a rare one takes
    double rare_p99_us = 0;
  };

  /// The traffic of each that takes part, from its first to its last completion.
  Rates measure(bool with_long, bool with_short, double seconds) {
    long_.new_data();
    short_.new_data();
    std::optional<Spinning<std::function<void()>>> far;
    if (!mix_.one_thread) far.emplace([this] { turn_far_ends(); });
    if (rare_) rare_->begin();
    uint64_t longs = 0;
    uint64_t shorts = 0;
    const clockid_t clock = mix_.one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start = seconds_of(clock);
    double took = 0;
    while ((took = seconds_of(clock) - start) < seconds) {
      for (int i = 0; i < 16; ++i) {
        if (with_long) longs += long_.step();
        if (with_short) shorts += rare_ ? rare_->step() : short_.step();
        if (mix_.one_thread) turn_far_ends();
      }
    }
    while (!long_.is_idle() || !short_.is_idle()) {
      long_.drain();
      short_.drain();
      if (mix_.one_thread) turn_far_ends();
    }
    if (far) far->join();
    long_.verify();
    short_.verify();
    Rates rates{.of_long = static_cast<double>(longs) / took, .of_short = static_cast<double>(shorts) / took};
    if (rare_) {
      rates.rare_p50_us = static_cast<double>(rare_->took().percentile(50)) / 1000;
      rates.rare_p99_us = static_cast<double>(rare_->took().percentile(99)) / 1000;
    }
    return rates;
  }

  void report() {
    measure(true, true, mix_.seconds / 4);  // to warm up
    const Rates long_alone = measure(true, false, mix_.seconds);
    const Rates short_alone = measure(false, true, mix_.seconds);
    const Rates both = measure(true, true, mix_.seconds);
    Figures figures;
    figures.add("long_alone", long_alone.of_long);
    figures.add("long_beside", both.of_long);
    figures.add("short_alone", short_alone.of_short);
    figures.add("short_beside", both.of_short);
    if (rare_) {
      figures.add("rare_alone_p50_us", short_alone.rare_p50_us);
      figures.add("rare_beside_p50_us", both.rare_p50_us);
      figures.add("rare_alone_p99_us", short_alone.rare_p99_us);
      figures.add("rare_beside_p99_us", both.rare_p99_us);
    }
    figures.print();
  }

 private:
  void turn_far_ends() {
    long_.turn_far_end();
    short_.turn_far_end();
  }

  const Mix mix_;
  Wire long_;
  Wire short_;
  std::optional<RareMessages> rare_;
};

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("Queue pairs with short messages beside one with long ones, as JSON");
  uroce::perf::Mix mix;
  app.add_option("--long", mix.long_bytes, "bytes of a long message")->transform(CLI::AsSizeValue(false));
  app.add_option("--long-queue-pairs", mix.long_queue_pairs)->check(CLI::PositiveNumber);
  app.add_option("--short", mix.short_bytes, "bytes of a short one")->transform(CLI::AsSizeValue(false));
  app.add_option("--short-queue-pairs", mix.short_queue_pairs)->check(CLI::PositiveNumber);
  app.add_option("--rare-us", mix.rare_us, "one short message each so many us, instead of as many as go");
  app.add_flag("--one-thread", mix.one_thread, "at both ends, and by its CPU time");
  app.add_option("--seconds", mix.seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::perf::MixedWires(mix).report();
  } catch (const std::exception& error) {
    fmt::print(stderr, "mixed_sizes: {}\n", error.what());
    return 1;
  }
}
