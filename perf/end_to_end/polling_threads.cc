// Many threads of one process, each with a queue pair and a completion queue of its own, that READ one after
// the other and poll until it is there: how many READs a second all of them have together, and how long one
// takes. The far ends have no thread of their own: the
// threads that turn the near ones turn them.
//
//   uroce run --port net_ring0 --ip 192.0.2.1/24 --port net_ring1 --ip 192.0.2.2/24 -- polling_threads
//   --threads 64
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/failure.h"
#include "client/histogram.h"
#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kSize = 64;

Traffic traffic() {
  return {.operation = Operation::kRead, .size = kSize, .region_bytes = 4096, .batch = 1, .outstanding = 1};
}

/// What one thread does.
class Reader {
 public:
  Reader()
      : near_(client::device_names().at(0), traffic(), Part::kTargets),
        far_(client::device_names().at(1), traffic(), Part::kSources) {
    near_.connect(far_);
    far_.connect(near_);
  }

  void read_until(const std::atomic<bool>& stop) {
    try {
      // Relaxed: nothing hangs on it but the end.
      while (!stop.load(std::memory_order_relaxed)) read(stop);
    } catch (...) {
      failure = std::current_exception();
    }
  }

  client::Histogram times;     // of the READs since forget() ...
  std::exception_ptr failure;  // for the thread that joins it
  std::atomic<bool> forget{false};

 private:
  void read(const std::atomic<bool>& stop) {
    if (forget.exchange(false, std::memory_order_relaxed)) times.clear();
    const auto start = Clock::now();
    near_.post(far_);
    while (near_.poll().completed == 0 && !stop.load(std::memory_order_relaxed)) continue;
    times.record(static_cast<uint64_t>((Clock::now() - start).count()));
  }

  RcEnd near_;
  RcEnd far_;
};

void measure(uint32_t count, double seconds) {
  std::vector<std::unique_ptr<Reader>> readers;
  for (uint32_t i = 0; i < count; ++i) readers.push_back(std::make_unique<Reader>());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (auto& reader : readers) threads.emplace_back([&stop, &reader] { reader->read_until(stop); });
  const auto sleep = [](double time) { std::this_thread::sleep_for(std::chrono::duration<double>(time)); };
  sleep(seconds / 4);
  for (auto& reader : readers) reader->forget.store(true, std::memory_order_relaxed);
  const auto start = Clock::now();
  sleep(seconds);
  stop.store(true, std::memory_order_relaxed);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::thread& thread : threads) thread.join();
  uint64_t done = 0;
  uint64_t longest = 0;
  for (auto& reader : readers) {
    if (reader->failure) std::rethrow_exception(reader->failure);
    // A thread that has not run since.
    if (reader->forget.load(std::memory_order_relaxed)) reader->times.clear();
    done += reader->times.count();
    longest = std::max(longest, reader->times.max());
  }
  fmt::print("{{\"messages_per_second\": {:.6g}, \"longest_ms\": {:.4g}}}\n",
             static_cast<double>(done) / took, static_cast<double>(longest) / 1e6);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("Threads that READ and poll, more of them than CPUs, as JSON");
  uint32_t threads = 1;
  double seconds = 0.5;
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::perf::measure(threads, seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "polling_threads: {}\n", error.what());
    return 1;
  }
}
