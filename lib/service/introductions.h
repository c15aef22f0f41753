#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/values/time.h"

namespace uroce::service {

/// A program has asked for a channel to another one. It ends when the program confirms that it has heard the
/// answer: questions that it sent before that may be for the same program.
struct Introduction {
  uint32_t number = 0;  // the request of the service's
  uint32_t from = 0;    // the programs
  uint32_t to = 0;
  uint32_t request = 0;  // of the program that asked
  Instant until;
  bool answered = false;  // the program that asked has been told, and has yet to confirm
};

/// The introductions under way; one at most from one program to another.
class Introductions {
 public:
  /// How long a program that is asked may take.
  static constexpr Duration kPatience = seconds(5);

  [[nodiscard]] bool under_way(uint32_t from, uint32_t to) const {
    return std::ranges::any_of(all_, [&](const Introduction& i) { return i.from == from && i.to == to; });
  }
  const Introduction& begin(uint32_t from, uint32_t to, uint32_t request, Instant now) {
    return all_.emplace_back(Introduction{++last_, from, to, request, now + kPatience});
  }
  /// What program `to` answers; null: there is no question to it of that number.
  Introduction* unanswered(uint32_t number, uint32_t to) {
    const auto at = std::ranges::find_if(
        all_, [&](const Introduction& i) { return i.number == number && i.to == to && !i.answered; });
    return at == all_.end() ? nullptr : &*at;
  }
  /// Takes out one for which `is_meant` says so.
  template <typename IsMeant>
  std::optional<Introduction> take_if(IsMeant is_meant) {
    const auto at = std::ranges::find_if(all_, is_meant);
    if (at == all_.end()) return std::nullopt;
    const Introduction taken = *at;
    all_.erase(at);
    return taken;
  }
  /// All of them wait equally long.
  [[nodiscard]] Instant deadline() const { return all_.empty() ? kNever : all_.front().until; }

 private:
  std::vector<Introduction> all_;
  uint32_t last_ = 0;
};

}  // namespace uroce::service
