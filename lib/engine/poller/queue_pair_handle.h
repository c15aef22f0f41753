#pragma once

#include <atomic>
#include <memory>

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
};

}  // namespace uroce::engine
