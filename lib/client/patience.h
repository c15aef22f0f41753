#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace uroce::client {

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

/// Tells when what may be lost has not come for so long that it counts as lost. Time in which this process
/// was not run does not count for much: it takes many looks, too.
class Silence {
 public:
  explicit Silence(std::chrono::milliseconds limit) : limit_(limit) {}

  void broken() { looks_ = 0; }
  /// Call on every look that brought nothing: true when it lasts for too long, and then it begins anew.
  bool lasts();

 private:
  std::chrono::milliseconds limit_;
  uint64_t looks_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

}  // namespace uroce::client
