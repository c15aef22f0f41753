#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include "client/failure.h"
#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {

/// Where processes of one family tell each other how to connect, when to start and what they have found. In
/// memory that forked processes share.
class Board {
 public:
  static constexpr uint32_t kPairsMax = 64;
  static constexpr uint32_t kQueuePairsMax = 64;

  using Clock = std::chrono::steady_clock;

  /// One end of a pair.
  struct Seat {
    RcPlace place;
    std::array<uint32_t, kQueuePairsMax> numbers{};
  };
  struct Pair {
    Seat near;
    Seat far;
    uint64_t posted = 0;  // messages, when `finished`
    double messages_per_second = 0;
    double round_trip_p50_us = 0;
    double round_trip_p99_us = 0;
    std::atomic<bool> finished{false};
  };

  /// Made before any process is forked, of which there will be `processes`. It lasts as long as all of them.
  static Board& make(uint32_t processes) {
    void* const at = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw client::Failure("no shared memory");
    return *new (at) Board(processes);
  }

  std::array<Pair, kPairsMax> pairs;

  static void publish(Seat& seat, const RcPlace& place, const std::vector<uint32_t>& numbers) {
    seat.place = place;
    for (size_t i = 0; i < numbers.size(); ++i) seat.numbers[i] = numbers[i];
  }

  /// Waits until every process has called it as often as this one.
  void meet() {
    // Acquire and release: what each process wrote before is seen by the others after.
    const uint32_t arrived = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
    const uint32_t wanted = (arrived + processes_ - 1) / processes_ * processes_;
    const auto start = Clock::now();
    while (arrived_.load(std::memory_order_acquire) < wanted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (failed()) throw client::Failure("another process failed");
      if (Clock::now() - start > kPatience) throw client::Failure("another process does not get ready");
    }
  }

  // Relaxed: nothing but an order to end.
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::seconds kPatience{30};

  explicit Board(uint32_t processes) : processes_(processes) {}

  const uint32_t processes_;
  std::atomic<uint32_t> arrived_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace uroce::perf
