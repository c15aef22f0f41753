#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/mem/exports.h"

namespace uroce::memory_export {

/// Brings ranges of files to the disk in a thread of its own, as that may take seconds. Ranges take turns by
/// pieces: a short one does not wait for a long one.
class Flusher {
 public:
  struct Job {
    uint64_t number = 0;  // of what asks
    SharedRegion region;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  struct Done {
    uint64_t number = 0;
    int error = 0;  // errno
  };

  /// Throws client::Failure.
  Flusher();
  /// Waits for the piece that is under way.
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  void submit(const Job& job);
  /// Readable when there is something to take.
  [[nodiscard]] int descriptor() const { return done_signal_; }
  std::vector<Done> take();

 private:
  static constexpr uint64_t kPieceBytes = 16 << 20;

  void run();

  const int done_signal_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Job> jobs_;
  std::vector<Done> done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace uroce::memory_export
