// Pairs of programs, each program a process with a device of its own: the first device that it finds. All
// pairs at once: the sum of their goodput and rate of messages of one size, whose data are verified after
// what is measured; or of one pair round trips; or with --idle what is connected and does nothing.
//
//   uroce run --port host,socket=PATH -- program_pairs --pairs 4 --size 64K
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "client/failure.h"
#include "client/pattern.h"
#include "perf/end_to_end/board.h"
#include "perf/end_to_end/pinned.h"
#include "perf/end_to_end/round_trip_end.h"
#include "perf/end_to_end/traffic_options.h"

namespace uroce::perf {
namespace {

using Clock = Board::Clock;

enum class Mode : uint8_t { kRate, kRoundTrips, kIdle };

struct Options {
  Traffic traffic;
  Mode mode = Mode::kRate;
  uint32_t pairs = 1;
  double seconds = 0.5;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// What one process does.
class Program {
 public:
  /// `index`: pair after pair, the near end first.
  Program(Board& board, const Options& options, uint32_t index)
      : board_(board),
        options_(options),
        index_(index),
        pair_(board.pairs[index / 2]),
        near_(index % 2 == 0),
        own_(near_ ? pair_.near : pair_.far),
        other_(near_ ? pair_.far : pair_.near) {}

  void run() {
    if (options_.mode == Mode::kRoundTrips)
      make_round_trips();
    else if (options_.mode == Mode::kIdle)
      idle();
    else
      stream();
  }

 private:
  static std::string device() { return client::device_names().at(0); }

  template <typename End>
  void connect(End& end) {
    Board::publish(own_, end.place(), end.numbers());
    board_.meet();
    end.connect(other_.place, other_.numbers);
    // Threads of the library stay where they like.
    if (options_.pairs == 1) pin_to(index_);
  }

  [[nodiscard]] bool reads() const { return options_.traffic.operation == Operation::kRead; }
  /// Whether this end has the sources; the other one has the targets, and verifies them.
  [[nodiscard]] bool has_sources() const { return near_ != reads(); }

  void idle() {
    RcEnd end(device(), options_.traffic, Part::kBoth);
    connect(end);
    board_.meet();
    sleep_for(options_.seconds);
  }

  void make_round_trips() {
    RoundTripEnd end(device(), RoundTripEnd::of_single_messages(options_.traffic));
    connect(end);
    board_.meet();
    if (!near_) {
      while (goes_on()) end.answer();
      return;
    }
    end.run(options_.seconds / 4);
    const client::Histogram samples = end.run(options_.seconds);
    pair_.round_trip_p50_us = static_cast<double>(samples.percentile(50)) / 1000;
    pair_.round_trip_p99_us = static_cast<double>(samples.percentile(99)) / 1000;
    finish();
  }

  void stream() {
    RcEnd end(device(), options_.traffic, has_sources() ? Part::kSources : Part::kTargets);
    connect(end);
    if (has_sources())
      for (uint64_t slot = 0; slot < options_.traffic.sources(); ++slot)
        client::fill_pattern(end.source(slot), seed_of(slot));
    if (!near_ && options_.traffic.operation == Operation::kSend)
      // Twice as many as can be under way: the far end need not have polled what is acknowledged.
      for (uint32_t i = 0; i < 2 * options_.traffic.outstanding; i += options_.traffic.batch)
        end.post_receives();
    board_.meet();
    near_ ? stream_near(end) : stream_far(end);
    board_.meet();
    if (!has_sources()) verify(end);
  }

  void stream_near(RcEnd& end) {
    uint64_t posted = 0;
    uint64_t completed = 0;
    const auto run = [&](double seconds) {
      const uint64_t before = completed;
      const auto start = Clock::now();
      for (uint32_t turn = 1; turn % 64 != 0 || seconds_since(start) < seconds; ++turn) {
        for (; posted - completed < options_.traffic.outstanding && end.has_room();
             posted += options_.traffic.batch)
          end.post(other_.place);
        completed += end.poll().completed;
      }
      return static_cast<double>(completed - before) / seconds_since(start);
    };
    run(options_.seconds / 4);
    pair_.messages_per_second = run(options_.seconds);
    for (const auto start = Clock::now(); completed < posted;) {
      completed += end.poll().completed;
      if (seconds_since(start) > kPatienceSeconds) throw client::Failure("messages are not completed");
    }
    pair_.posted = posted;
    finish();
  }

  void stream_far(RcEnd& end) {
    const uint32_t batch = options_.traffic.batch;
    for (uint32_t received = 0; goes_on();) {
      received += end.poll().received;
      for (; received >= batch; received -= batch) end.post_receives();
    }
  }

  /// What was written last, as far as there is room for it.
  void verify(RcEnd& end) const {
    const uint64_t first = pair_.posted - std::min(pair_.posted, options_.traffic.targets());
    for (uint64_t message = first; message < pair_.posted; ++message) {
      const auto wrong =
          client::first_difference(end.target(message), seed_of(message % options_.traffic.sources()));
      if (wrong)
        throw client::Failure(fmt::format("pair {}: message {} of {} is not what was sent, from byte {} on",
                                          index_ / 2, message, pair_.posted, *wrong));
    }
  }
  [[nodiscard]] uint64_t seed_of(uint64_t slot) const { return (index_ / 2 + 1) * 1'000'000ull + slot; }

  // Release, and acquire in the other process: the figures were written before.
  void finish() { pair_.finished.store(true, std::memory_order_release); }
  [[nodiscard]] bool goes_on() const {
    return !pair_.finished.load(std::memory_order_acquire) && !board_.failed();
  }

  static constexpr double kPatienceSeconds = 30;

  Board& board_;
  const Options& options_;
  const uint32_t index_;
  Board::Pair& pair_;
  const bool near_;
  Board::Seat& own_;
  const Board::Seat& other_;
};

int in_child(Board& board, const Options& options, uint32_t index) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    Program(board, options, index).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "program_pairs: {}\n", error.what());
    board.fail();
    return 1;
  }
  return 0;
}

void print_figures(const Board& board, const Options& options) {
  const auto pairs = std::span(board.pairs).first(options.pairs);
  if (options.mode == Mode::kRoundTrips) {
    fmt::print("{{\"round_trip_p50_us\": {:.4f}, \"round_trip_p99_us\": {:.4f}}}\n",
               pairs.front().round_trip_p50_us, pairs.front().round_trip_p99_us);
    return;
  }
  double sum = 0;
  double least = pairs.front().messages_per_second;
  for (const Board::Pair& pair : pairs) {
    sum += pair.messages_per_second;
    least = std::min(least, pair.messages_per_second);
  }
  fmt::print(
      "{{\"messages_per_second\": {:.6g}, \"gigabits_per_second\": {:.6g}, \"least_over_mean\": {:.3g}}}\n",
      sum, sum * options.traffic.size * 8 / 1e9, sum > 0 ? least * options.pairs / sum : 0);
}

void run(const Options& options) {
  Board& board = Board::make(2 * options.pairs);
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < 2 * options.pairs; ++i) {
    const pid_t child = fork();
    if (child == 0) std::exit(in_child(board, options, i));
    if (child < 0) board.fail();
    if (child > 0) children.push_back(child);
  }
  if (options.mode == Mode::kIdle) {
    fmt::print("idle {}\n", fmt::join(children, " "));
    std::fflush(stdout);
  }
  bool sound = children.size() == 2 * options.pairs;
  for (size_t left = children.size(); left > 0; --left) {
    int status = 0;
    wait(&status);
    if (status == 0) continue;
    sound = false;
    board.fail();
  }
  if (!sound) throw client::Failure("a program failed");
  if (options.mode != Mode::kIdle) print_figures(board, options);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  using namespace uroce::perf;
  CLI::App app("Pairs of programs with a device each: goodput and rate, or round trips, as JSON");
  const TrafficOptions asked(app);
  Options options;
  bool ping = false;
  bool idle = false;
  app.add_option("--pairs", options.pairs)->check(CLI::Range(1u, Board::kPairsMax));
  app.add_flag("--ping", ping, "round trips of one pair");
  app.add_flag("--idle", idle, "connect and do nothing");
  app.add_option("--seconds", options.seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    options.traffic = asked.traffic();
    options.mode = ping ? Mode::kRoundTrips : idle ? Mode::kIdle : Mode::kRate;
    if (options.traffic.queue_pairs > Board::kQueuePairsMax || (ping && options.pairs > 1))
      throw uroce::client::Failure("there are 64 queue pairs at most, and round trips of one pair");
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "program_pairs: {}\n", error.what());
    return 1;
  }
}
