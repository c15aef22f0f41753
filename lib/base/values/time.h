#pragma once

#include <compare>
#include <cstdint>

namespace uroce {

/// A span of time in nanoseconds.
struct Duration {
  int64_t ns = 0;

  [[nodiscard]] constexpr auto operator<=>(const Duration&) const = default;
  [[nodiscard]] constexpr Duration operator+(Duration other) const { return {ns + other.ns}; }
  [[nodiscard]] constexpr Duration operator-(Duration other) const { return {ns - other.ns}; }
  [[nodiscard]] constexpr Duration operator*(int64_t factor) const { return {ns * factor}; }
};

constexpr Duration nanoseconds(int64_t n) { return {n}; }
constexpr Duration microseconds(int64_t n) { return {n * 1'000}; }
constexpr Duration milliseconds(int64_t n) { return {n * 1'000'000}; }
constexpr Duration seconds(int64_t n) { return {n * 1'000'000'000}; }

/// A moment on the clock that the caller chose: the poller's monotonic clock, or a simulation's virtual one.
/// Nothing below `engine` reads a clock; `now` is always an argument.
struct Instant {
  int64_t ns = 0;

  [[nodiscard]] constexpr auto operator<=>(const Instant&) const = default;
  [[nodiscard]] constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
  [[nodiscard]] constexpr Instant operator-(Duration d) const { return {ns - d.ns}; }
  [[nodiscard]] constexpr Duration operator-(Instant other) const { return {ns - other.ns}; }
};

/// Later than every real moment: "no deadline".
inline constexpr Instant kNever{INT64_MAX};

/// The moments are on another clock from now on, which shows `by` more. Those that stand for "never" and
/// "long ago" stay.
template <typename... Instants>
constexpr void shift(Duration by, Instants&... moments) {
  const auto is_real = [](Instant at) { return at != kNever && at.ns > INT64_MIN / 2; };
  ((moments = is_real(moments) ? moments + by : moments), ...);
}

}  // namespace uroce
