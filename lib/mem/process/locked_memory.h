#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/values/result.h"

namespace uroce::mem {

/// Registered bytes against RLIMIT_MEMLOCK. The stack pins nothing, but a program that registers more than it
/// may would fail on hardware, and does so here unless it is configured otherwise. Thread-safe; control path.
class LockedMemory {
 public:
  enum class Limit : uint8_t { kHonoured, kIgnored };

  /// The account of this process: the limit belongs to the process, however many devices it opens.
  static LockedMemory& of_process();

  /// ENOMEM: the limit as it is at this moment would be exceeded, and the process lacks CAP_IPC_LOCK.
  Status charge(const std::byte* address, uint64_t length, Limit limit = Limit::kHonoured);
  /// Gives back what charge() took for the same range.
  void release(const std::byte* address, uint64_t length);

  /// Whole pages.
  [[nodiscard]] uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;
};

}  // namespace uroce::mem
