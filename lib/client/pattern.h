#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce::client {

/// What memory holds before anything arrives.
constexpr std::byte kPoison{0xA5};

/// Fills `bytes` with what only this `seed` gives: no two messages carry the same bytes.
void fill_pattern(std::span<std::byte> bytes, uint64_t seed);

/// Offset of the first byte that is not what fill_pattern() wrote, none when all are.
std::optional<size_t> first_difference(std::span<const std::byte> bytes, uint64_t seed);

/// Offset of the first byte that is not poison.
std::optional<size_t> first_touched(std::span<const std::byte> bytes);

}  // namespace uroce::client
