#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "nvmf/format/log_page.h"

namespace uroce::nvmf {

/// The last commands of a controller that failed. Any thread.
class ErrorLog {
 public:
  static constexpr size_t kEntries = 64;

  void record(ErrorLogEntry entry) {
    const std::lock_guard guard(mutex_);
    entry.count = ++count_;
    entries_[count_ % kEntries] = entry;
  }
  /// The newest first; those that there are not have count 0.
  [[nodiscard]] std::array<ErrorLogEntry, kEntries> entries() {
    const std::lock_guard guard(mutex_);
    std::array<ErrorLogEntry, kEntries> newest_first{};
    for (uint64_t i = 0; i < kEntries && i < count_; ++i) newest_first[i] = entries_[(count_ - i) % kEntries];
    return newest_first;
  }
  [[nodiscard]] uint64_t count() {
    const std::lock_guard guard(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  uint64_t count_ = 0;
  std::array<ErrorLogEntry, kEntries> entries_{};
};

}  // namespace uroce::nvmf
