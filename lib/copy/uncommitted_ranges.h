#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::copy {

/// Addresses [begin, end).
struct Range {
  uintptr_t begin;
  uintptr_t end;

  static Range of(const std::byte* to, size_t length) {
    const auto begin = reinterpret_cast<uintptr_t>(to);
    return {begin, begin + length};
  }
  [[nodiscard]] bool meets(Range other) const { return begin < other.end && other.begin < end; }
  [[nodiscard]] Range with(Range other) const {
    return {std::min(begin, other.begin), std::max(end, other.end)};
  }
};

/// Destinations that are written but not committed. Their hull, the one range around all of them, answers for
/// most placements; the ranges of messages, and parts of messages, that are longer than a tail are listed,
/// neighbours joined. (Tails are a list of their own.)
class UncommittedRanges {
 public:
  static constexpr size_t kMax = 64;

  UncommittedRanges() { clear(); }
  UncommittedRanges(const UncommittedRanges&) = delete;
  UncommittedRanges& operator=(const UncommittedRanges&) = delete;

  [[nodiscard]] bool empty() const { return hull_.end == kNowhere.end; }
  /// Behind everything, so it meets nothing. False: meets() knows.
  [[nodiscard]] bool is_beyond(Range range) const { return range.begin >= hull_.end; }
  /// True also when it only lies within the hull: the caller looks at its tails.
  [[nodiscard]] bool in_hull(Range range) const { return range.meets(hull_); }
  /// A listed range has bytes in common with it.
  [[nodiscard]] bool meets(Range range) const {
    for (const Range* other = range_.data(); other != last_;)
      if (range.meets(*++other)) return true;
    return false;
  }

  /// Adds the range to the hull without listing it.
  void widen(Range range) { hull_ = hull_.with(range); }
  /// Lists it. False: there is no room; clear() first.
  bool add(Range range) {
    if (last_->end == range.begin) {
      last_->end = range.end;
    } else {
      if (last_ == &range_.back()) [[unlikely]]
        return false;
      *++last_ = range;
    }
    widen(range);
    return true;
  }
  void clear() {
    last_ = range_.data();
    hull_ = kNowhere;
  }

 private:
  static constexpr Range kNowhere{UINTPTR_MAX, 0};

  Range hull_ = kNowhere;
  Range* last_ = nullptr;  // of range_; its first one when there is none
  /// The first is none: no range is a neighbour of that.
  std::array<Range, kMax + 1> range_{kNowhere};
};

}  // namespace uroce::copy
