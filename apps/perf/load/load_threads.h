#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/perf/load/load_end.h"

namespace uroce::perf {

/// Threads that turn the ends of a load until they are stopped.
class LoadThreads {
 public:
  /// One thread for each list of ends, which must outlive this.
  explicit LoadThreads(const std::vector<std::vector<LoadEnd*>>& ends);
  ~LoadThreads();
  LoadThreads(const LoadThreads&) = delete;
  LoadThreads& operator=(const LoadThreads&) = delete;

  /// Throws what ended a thread, if anything did.
  void check();
  /// The ends are this thread's again. Throws as check() does.
  void stop();

 private:
  void turn(const std::vector<LoadEnd*>& ends) noexcept;
  void join();

  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

/// Waits until the ends have sent all and it has completed, and calls `look()` meanwhile, which may throw.
/// Throws also at an interruption, and when nothing has happened for a minute.
void await_drained(const std::vector<LoadEnd*>& ends, const std::function<void()>& look);

/// Waits as await_drained() does until an end has received `wanted` messages; of an unreliable service until
/// nothing more comes.
void await_received(const LoadEnd& end, uint64_t wanted, bool reliable, const std::function<void()>& look);

}  // namespace uroce::perf
