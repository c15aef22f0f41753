#pragma once

#include <deque>
#include <string>
#include <vector>

#include "conversation.h"
#include "messages.h"
#include "replay.h"
#include "tables.h"

namespace uroce::replay {

/// Holds what our end did against what the capture determines.
class Judge {
 public:
  Judge(const Conversation& conversation, size_t ours, const Requests& own, const Requests& peers,
        Arrival arrival, const Record& record);

  std::vector<std::string> differences();

 private:
  using Packets = std::vector<const Packet*>;

  void judge_answers();
  void judge_answer(const Packet& answer);
  void judge_requests();
  void judge_contents(const Packets& captured, const Packets& ours);
  void judge_sends();
  void judge_receives();

  [[nodiscard]] Packets captured(bool responses) const;
  [[nodiscard]] Packets sent(bool responses) const;
  [[nodiscard]] bool has_given_up(const Event& event) const;
  void fail(std::string what);

  const Conversation& conversation_;
  const size_t ours_;
  const Requests& own_;
  const Requests& peers_;
  const Arrival arrival_;
  const Record& record_;
  const Conditions conditions_;
  std::deque<Packet> corrected_;
  std::vector<std::string> found_;
};

}  // namespace uroce::replay
