#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tests/judge/operation.h"

namespace uroce::judge {

/// What a responder's target holds when a list has been performed up to some request: requests are performed
/// once, and in order.
class Model {
 public:
  explicit Model(uint64_t seed);

  /// The word that was there, of an atomic.
  uint64_t perform(const Operation& operation);

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes(Range range) const {
    return bytes().subspan(range.offset, range.length);
  }
  [[nodiscard]] uint64_t word(uint32_t offset) const;

 private:
  std::vector<std::byte> bytes_;
};

/// Offset in `seen` of the first byte that neither `model` has at `offset` nor one of the requests `later`
/// puts there. A READ may be performed again, and memory is looked at, while later requests are under way.
std::optional<size_t> first_wrong(std::span<const std::byte> seen, uint32_t offset, const Model& model,
                                  std::span<const Operation> later);

}  // namespace uroce::judge
