#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace uroce::perf {

/// Watches a loop that spins for something: notices Ctrl-C, and gives up when nothing happened for a minute.
/// Reads the clock in one call of 64 only.
class Patience {
 public:
  explicit Patience(std::string waiting_for) : waiting_for_(std::move(waiting_for)) {}

  /// Call on every turn that brought nothing.
  void waited() {
    if (++turns_ % 64 == 0) look();
  }
  void progressed() { idle_since_ = {}; }

 private:
  void look();

  std::string waiting_for_;
  uint64_t turns_ = 0;
  std::chrono::steady_clock::time_point idle_since_{};
};

}  // namespace uroce::perf
