#pragma once

#include <atomic>
#include <exception>
#include <thread>

namespace uroce::perf {

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

}  // namespace uroce::perf
