#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/failure.h"

namespace uroce::memory_export {

/// A thread for jobs that may take seconds, one after the other, so that what submits them goes on. Results
/// are taken when an eventfd tells of them. All members are for one other thread.
template <typename Job, typename Result>
class BackgroundThread {
 public:
  /// Does a job, or a part of it: nullopt has the rest wait behind the other jobs. Runs in the thread.
  using Work = std::optional<Result> (*)(Job& job);

  /// `waiting_max`: of more jobs that wait the first ones are forgotten. Throws client::Failure.
  explicit BackgroundThread(Work work, size_t waiting_max = SIZE_MAX)
      : work_(work), waiting_max_(waiting_max), signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (signal_ < 0) throw client::failed("eventfd", errno);
    thread_ = std::thread([this] { run(); });
  }
  /// Waits for the work that is under way.
  ~BackgroundThread() {
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
    }
    wanted_.notify_one();
    thread_.join();
    close(signal_);
  }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void submit(Job job) {
    {
      const std::lock_guard guard(mutex_);
      if (jobs_.size() == waiting_max_) jobs_.pop_front();
      jobs_.push_back(std::move(job));
    }
    wanted_.notify_one();
  }

  /// Readable when there is something to take.
  [[nodiscard]] int descriptor() const { return signal_; }
  std::vector<Result> take() {
    uint64_t count = 0;
    if (read(signal_, &count, sizeof count) < 0) return {};
    const std::lock_guard guard(mutex_);
    return std::exchange(results_, {});
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wanted_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::optional<Result> result = work_(job);
      lock.lock();
      if (!result) {
        jobs_.push_back(std::move(job));
        continue;
      }
      results_.push_back(std::move(*result));
      constexpr uint64_t kOne = 1;
      if (write(signal_, &kOne, sizeof kOne) < 0) continue;  // EAGAIN: it is readable already
    }
  }

  const Work work_;
  const size_t waiting_max_;
  const int signal_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Job> jobs_;
  std::vector<Result> results_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace uroce::memory_export
