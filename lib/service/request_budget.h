#pragma once

#include <algorithm>
#include <cstdint>

#include "base/values/time.h"
#include "host/control.h"

namespace uroce::service {

/// So much at once, and then so much a second.
class TokenBucket {
 public:
  /// `each`: the time in which one token comes.
  constexpr TokenBucket(int64_t burst, Duration each) : burst_(burst), each_(each) {}

  /// Tokens that there are; less than none after more was taken.
  [[nodiscard]] int64_t left(Instant now) const {
    // One that is on its way is not there.
    return burst_ - ((std::max(full_at_, now) - now).ns + each_.ns - 1) / each_.ns;
  }
  void take(int64_t tokens, Instant now) { full_at_ = std::max(full_at_, now) + Duration{each_.ns * tokens}; }
  /// When there will be so many, if nothing is taken until then.
  [[nodiscard]] Instant ready_at(int64_t tokens) const {
    return full_at_ - Duration{each_.ns * (burst_ - tokens)};
  }

 private:
  int64_t burst_;
  Duration each_;
  Instant full_at_{INT64_MIN / 2};
};

/// What requests of one user may cost the control thread, by all connections of the user together, in units
/// of a small request (some 10 us). The rounds of the thread are shared: in each the requests of a user are
/// read until they have cost a fixed amount, so that one user waits for no more than that of each other.
/// Beside it a rate bounds the CPU time that a user takes of the service.
class RequestBudget {
 public:
  static constexpr int64_t kRound = 32;      // of each round
  static constexpr int64_t kBurst = 20'000;  // over many rounds
  static constexpr Duration kEach = microseconds(50);
  /// One that has used up its rate is read again when it has so much: each of its connections is looked at
  /// then.
  static constexpr int64_t kPause = 200;

  enum class Answer : uint8_t { kRead, kNextRound, kPaused };
  /// Whether to read a request of the user in this round. kPaused: not before ready_at().
  Answer ask(uint64_t round, Instant now) {
    left_ = std::min(kRound,
                     left_ + kRound * static_cast<int64_t>(std::min<uint64_t>(round - round_, kRoundsMax)));
    round_ = round;
    if (rate_.left(now) <= 0) paused_ = true;
    if (paused_ && rate_.left(now) < kPause) return Answer::kPaused;
    paused_ = false;
    return left_ > 0 ? Answer::kRead : Answer::kNextRound;
  }
  void charge(int64_t units, Instant now) {
    left_ -= units;
    rate_.take(units, now);
  }
  [[nodiscard]] Instant ready_at() const { return rate_.ready_at(kPause); }
  /// Nothing is owed: a new budget would be the same.
  [[nodiscard]] bool full(Instant now) const { return rate_.left(now) >= kBurst; }

 private:
  static constexpr uint64_t kRoundsMax = 1u << 20;

  uint64_t round_ = 0;
  int64_t left_ = kRound;
  bool paused_ = false;
  TokenBucket rate_{kBurst, kEach};
};

/// What a request costs before its answer is known. Answers of several messages cost more (kPartsOfUnit).
constexpr int64_t cost_of(host::MessageType type) {
  using host::MessageType;
  switch (type) {
    case MessageType::kAttach:  // maps and makes memory, tells all programs, and ends some time
    case MessageType::kReload:
      return 64;
    case MessageType::kFaultAdd:
    case MessageType::kFaultRemove:  // each program hears of it
      return 16;
    case MessageType::kStatus:
    case MessageType::kFaultList:
    case MessageType::kList:
      return 4;
    case MessageType::kIntroduce:
    case MessageType::kBind:
    case MessageType::kListen:
    case MessageType::kRelease:
    case MessageType::kJoin:
    case MessageType::kLeave:  // take a turn of the device's poller
      return 2;
    default:
      return 1;
  }
}
/// What it costs to take a connection in.
inline constexpr int64_t kCostOfConnection = 2;
/// Parts of a text that cost one unit to send.
inline constexpr size_t kPartsOfUnit = 4;

}  // namespace uroce::service
