#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace uroce::sim {

/// Notices every store to some memory (whole pages) while it lives. A store is noted and then let through, so
/// that the run goes on and can report it. One at a time.
class WriteGuard {
 public:
  explicit WriteGuard(std::vector<std::span<std::byte>> memory);
  ~WriteGuard();
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

  [[nodiscard]] bool written() const;
};

}  // namespace uroce::sim
