#include "apps/perf/load/load_threads.h"

#include <algorithm>

#include "client/failure.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{1};
constexpr std::chrono::seconds kStopPatience{60};
constexpr std::chrono::milliseconds kQuietAtEnd{200};  // nothing more of an unreliable service comes

}  // namespace

LoadThreads::LoadThreads(const std::vector<std::vector<LoadEnd*>>& ends) {
  for (const std::vector<LoadEnd*>& its : ends) threads_.emplace_back([this, its] { turn(its); });
}

LoadThreads::~LoadThreads() { join(); }

void LoadThreads::join() {
  // Relaxed: what the threads leave behind is seen by joining them.
  stopping_.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void LoadThreads::turn(const std::vector<LoadEnd*>& ends) noexcept {
  try {
    // Relaxed: see join().
    while (!stopping_.load(std::memory_order_relaxed))
      for (LoadEnd* const end : ends) end->turn();
  } catch (...) {
    const std::lock_guard guard(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void LoadThreads::check() {
  const std::lock_guard guard(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void LoadThreads::stop() {
  join();
  check();
}

void await_drained(const std::vector<LoadEnd*>& ends, const std::function<void()>& look) {
  const auto moved = [&] {
    uint64_t sum = 0;
    for (const LoadEnd* end : ends) sum += end->sent() + end->received();
    return sum;
  };
  uint64_t last = moved();
  auto since = Clock::now();
  while (!std::ranges::all_of(ends, [](const LoadEnd* end) { return end->drained(); })) {
    std::this_thread::sleep_for(kLook);
    client::throw_if_interrupted();
    look();
    const uint64_t now = moved();
    if (now != last) since = Clock::now();
    last = now;
    if (Clock::now() - since > kStopPatience) throw client::Failure("no message has completed for a minute");
  }
}

void await_received(const LoadEnd& end, uint64_t wanted, bool reliable, const std::function<void()>& look) {
  uint64_t last = end.received();
  auto since = Clock::now();
  while (end.received() < wanted) {
    std::this_thread::sleep_for(kLook);
    client::throw_if_interrupted();
    look();
    const uint64_t now = end.received();
    if (now != last) since = Clock::now();
    last = now;
    const auto quiet = Clock::now() - since;
    if (!reliable && quiet > kQuietAtEnd) return;
    if (quiet > kStopPatience) throw client::Failure("messages that completed at the peer did not arrive");
  }
}

}  // namespace uroce::perf
