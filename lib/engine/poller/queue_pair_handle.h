#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/identifiers.h"
#include "base/pooled.h"
#include "queue/work_queue.h"

namespace uroce::engine {

/// A queue pair with the queues that the application's threads and its poller share. Made and destroyed by
/// Device.
struct QueuePairHandle : Pooled {
  QpNumber number;
  std::unique_ptr<queue::SendQueue> send_queue;
  std::unique_ptr<queue::ReceiveQueue> receive_queue;
  void* owner = nullptr;  // for the face that made it
  /// Set by the poller (seq_cst) when the queue pair enters the error state and before it flushes, cleared
  /// when it leaves it. A thread that publishes receive requests looks at it afterwards and rings the
  /// doorbell when it is set.
  std::atomic<bool> in_error{false};
  virtual ~QueuePairHandle() = default;

  /// Before the calling thread posts. If it posted to another queue pair last, the lines of this one come
  /// into the cache at once, not one by one.
  void prepare_to_post() const {
    if (std::exchange(posted_last, this) != this) prefetch();
  }

 private:
  [[gnu::noinline]] void prefetch() const;

  /// By the calling thread; only compared. initial-exec: looked at with every post.
  static constinit thread_local const QueuePairHandle* posted_last __attribute__((tls_model("initial-exec")));
};

}  // namespace uroce::engine
