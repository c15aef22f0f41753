#include "apps/mem/flusher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/failure.h"

namespace uroce::memory_export {

Flusher::Flusher() : done_signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (done_signal_ < 0) throw client::failed("eventfd", errno);
  thread_ = std::thread([this] { run(); });
}

Flusher::~Flusher() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
  close(done_signal_);
}

void Flusher::submit(const Job& job) {
  {
    const std::lock_guard guard(mutex_);
    jobs_.push_back(job);
  }
  wanted_.notify_one();
}

std::vector<Flusher::Done> Flusher::take() {
  uint64_t count = 0;
  if (read(done_signal_, &count, sizeof count) < 0) return {};
  const std::lock_guard guard(mutex_);
  return std::exchange(done_, {});
}

void Flusher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = jobs_.front();
    jobs_.pop_front();
    const uint64_t piece = std::min(job.length, kPieceBytes);
    lock.unlock();
    const int error = job.region->file->sync(job.offset, piece);
    lock.lock();
    job.offset += piece;
    job.length -= piece;
    if (error == 0 && job.length > 0) {
      jobs_.push_back(job);
      continue;
    }
    done_.push_back({job.number, error});
    constexpr uint64_t kOne = 1;
    if (write(done_signal_, &kOne, sizeof kOne) < 0) continue;  // EAGAIN: it is readable already
  }
}

}  // namespace uroce::memory_export
