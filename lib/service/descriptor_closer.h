#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "base/values/time.h"

namespace uroce::service {

/// Closes descriptors that programs have sent, and connections that such descriptors may wait in. Closing one
/// may take as long as its sender likes (SO_LINGER; FLUSH of a FUSE file), so it is done by a thread that
/// does nothing else. What a signal can end is ended after 0.2 ms. A thread that hangs in the kernel is
/// replaced by another one.
///
/// Bounds: a user whose `kUnfinishedOfUserMax` messages are being closed sends no more descriptors
/// (admits()); with `kThreadsMax` threads none is started before one comes back, and at `kWaitingMax` waiting
/// descriptors no connection is to be taken (full()). Belongs to one thread, whose time it is told.
class DescriptorCloser {
 public:
  static constexpr size_t kUnfinishedOfUserMax = 2;
  static constexpr size_t kUnfinishedMax = 48;
  static constexpr size_t kThreadsMax = 64;
  static constexpr size_t kWaitingMax = 4096;
  static constexpr Duration kPatience = milliseconds(20);  // with one message or connection, then it hangs

  /// How one descriptor is closed; for tests.
  using Close = std::function<void(Descriptor)>;
  explicit DescriptorCloser(Close close = nullptr);
  /// Waits a second at most. What hangs then ends with the process.
  ~DescriptorCloser();
  DescriptorCloser(const DescriptorCloser&) = delete;
  DescriptorCloser& operator=(const DescriptorCloser&) = delete;

  /// Closes the descriptors of one message of a program of `user`, in order.
  void close(uid_t user, std::vector<Descriptor> descriptors);
  /// Closes memory whose seals were looked at, which takes time by its size and ends. It does not count for
  /// admits().
  void close_memory(uid_t user, Descriptor memory);
  /// A connection, with all that was not read of it. Its other end sees the end at once.
  void close_connection(uid_t user, Descriptor socket);

  /// Whether descriptors of the user may be taken. Those of the superuser and of this process's user always
  /// may.
  [[nodiscard]] bool admits(uid_t user) const;
  [[nodiscard]] bool full() const;

  /// Replaces a thread that hangs, and returns the user of the descriptor that it hangs at.
  std::optional<uid_t> look(Instant now);
  /// When look() is due again.
  [[nodiscard]] Instant deadline() const;

 private:
  struct Job;
  struct Shared;

  void add(Job job);
  void start_thread();
  static void work(const std::shared_ptr<Shared>& shared, uint64_t number);

  const std::shared_ptr<Shared> shared_;  // outlives this where a thread hangs
  uint64_t seen_job_ = 0;                 // that look() has found under way
  Instant seen_at_{};
  Instant looked_at_{};
};

}  // namespace uroce::service
