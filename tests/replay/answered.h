#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "conversation.h"
#include "messages.h"

namespace uroce::replay {

/// What the answers that a requester got mean to it, by the rules of the protocol and nothing else:
/// SEND and WRITE are acknowledged cumulatively, a READ or atomic only by its own responses. What came early
/// counts when all before it has come.
class Answered {
 public:
  enum class Asks {
    kNothing,
    kAgain,  // from the oldest unanswered packet on
    kLater,  // the same, after the time that the RNR NAK names
    kFailed,
  };

  explicit Answered(const Requests& requests) : messages_(requests.messages), oldest_(requests.first) {}

  Asks take(const Packet& answer);

  /// The oldest PSN that was not answered.
  [[nodiscard]] Psn oldest() const { return oldest_; }
  /// Messages that are answered to their end.
  [[nodiscard]] size_t complete() const { return complete_; }
  /// The oldest message wants an answer of its own.
  [[nodiscard]] bool waits() const {
    return complete_ < messages_.size() && messages_[complete_].needs_own_response();
  }

 private:
  void advance(Psn to);
  bool acknowledge_before(Psn end);
  bool settle();

  const std::vector<Message>& messages_;
  Psn oldest_;
  size_t complete_ = 0;
  std::set<uint32_t> early_;         // responses that came before others
  std::optional<Psn> acknowledged_;  // the newest
};

}  // namespace uroce::replay
