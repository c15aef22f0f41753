#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/values/result.h"

namespace uroce::drivers {

/// Memory of zeroes, all of it there from the beginning: of hugepages (2 MiB) when there are enough, of
/// ordinary pages otherwise. Belongs to the object.
class Memory {
 public:
  /// `node`: whose memory it must be. Errors: ENOMEM, EINVAL (no such node).
  static Result<Memory> make(uint64_t bytes, std::optional<int> node);

  ~Memory();
  Memory(Memory&& other) noexcept
      : mapped_(std::exchange(other.mapped_, {})), bytes_(other.bytes_), huge_(other.huge_) {}
  Memory& operator=(Memory&&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return mapped_.first(bytes_); }
  [[nodiscard]] bool of_hugepages() const { return huge_; }

 private:
  Memory(std::span<std::byte> mapped, size_t bytes, bool huge)
      : mapped_(mapped), bytes_(bytes), huge_(huge) {}
  static Result<Memory> map(uint64_t bytes, std::optional<int> node, bool huge);
  [[nodiscard]] Status bind(int node) const;
  [[nodiscard]] Status populate() const;

  std::span<std::byte> mapped_;  // whole pages
  size_t bytes_;
  bool huge_;
};

}  // namespace uroce::drivers
