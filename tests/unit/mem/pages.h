#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/values/result.h"
#include "mem/bus/bus_space.h"

namespace uroce::mem {

inline constexpr uint64_t kPage = 4096;

/// The value of a result that must be one.
template <typename T>
T taken(Result<T> result) {
  return std::move(result.value());
}

/// Memory of whole pages, each mapped on the bus by itself.
struct Pages {
  Pages(BusSpace& bus, size_t count, Direction direction = Direction::kBidirectional)
      : memory(static_cast<std::byte*>(std::aligned_alloc(kPage, count * kPage)), &std::free) {
    for (size_t i = 0; i < count; ++i) addresses.push_back(bus.map(at(i), kPage, direction).value());
  }
  [[nodiscard]] std::byte* at(size_t page) const { return memory.get() + page * kPage; }

  std::unique_ptr<std::byte, decltype(&std::free)> memory;
  std::vector<uint64_t> addresses;
};

}  // namespace uroce::mem
