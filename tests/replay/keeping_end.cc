#include "keeping_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace uroce::replay {

namespace {

/// What an ACK or a sequence NAK says.
struct Answer {
  bool nak = false;
  Psn psn;
};

/// What it is to answer to each request as it comes.
class KeepingEnd {
 public:
  explicit KeepingEnd(Psn first) : expected_(first) {}

  /// `psns`: that it takes. `answered`: by an ACK, if it asks; else by itself.
  void take(const Packet& request, uint32_t psns, bool answered) {
    const Request taken{.psns = psns, .asks = answered && request.parsed.headers.bth.ack_request};
    const Psn psn = request.psn();
    pass(psn);
    if (psn.after(expected_)) return take_early(static_cast<uint32_t>(psn - expected_), psns);
    if (psn == expected_) return advance(taken);
    if (taken.asks) acknowledge();
    if (answered && !taken.asks) differs_ = true;
  }

  /// There was a request that the kernel would have answered otherwise.
  [[nodiscard]] bool differs() const { return differs_; }
  [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }

 private:
  struct Request {
    uint32_t psns;
    bool asks;  // for an ACK
  };

  void take_early(uint32_t ahead, uint32_t psns) {
    differs_ = true;
    early_.emplace(passed_ + ahead, psns);
    if (told_) return;
    told_ = true;
    answers_.push_back({.nak = true, .psn = expected_});
  }

  /// The kernel is at `psn`, once more if that is kept: what is kept of what it has passed counts.
  void pass(Psn psn) {
    if (!psn.after(expected_) || !early_.contains(passed_ + static_cast<uint32_t>(psn - expected_))) return;
    for (auto next = early_.find(passed_); next != early_.end() && expected_.before(psn);
         next = early_.find(passed_)) {
      step(next->second);
      early_.erase(next);
    }
  }

  void advance(const Request& request) {
    early_.erase(passed_);
    step(request.psns);
    if (request.asks) acknowledge();
  }

  void step(uint32_t psns) {
    told_ = false;
    expected_ += psns;
    passed_ += psns;
  }
  void acknowledge() { answers_.push_back({.nak = false, .psn = expected_ - 1u}); }

  Psn expected_;
  uint64_t passed_ = 0;                 // PSNs before it
  std::map<uint64_t, uint32_t> early_;  // by how many PSNs come before: how many each takes
  bool told_ = false;                   // of the gap
  bool differs_ = false;
  std::vector<Answer> answers_;
};

std::string text_of(const Answer& answer, const Requests& peers) {
  const Psn done = answer.nak ? answer.psn - 1u : answer.psn;
  return fmt::format("{} {:#x} msn {}", answer.nak ? "NAK 0" : "ACK", answer.psn.value(),
                     peers.complete_at(done));
}
std::string text_of(const Packet& answer) {
  const wire::Aeth& aeth = answer.aeth();
  const std::string kind = aeth.kind == wire::AethKind::kAck ? "ACK" : fmt::format("NAK {}", aeth.value);
  return fmt::format("{} {:#x} msn {}", kind, answer.psn().value(), aeth.msn);
}

bool is_acknowledgement(const Packet& answer) {
  return answer.parsed.row->family == wire::Family::kAck &&
         !answer.parsed.row->headers.has(wire::Header::kAtomicAckEth);
}

}  // namespace

std::optional<std::string> judge_acknowledgements_of_a_keeping_end(const Requests& peers,
                                                                   const Record& record) {
  if (std::ranges::any_of(peers.messages,
                          [](const Message& message) { return message.failed() || message.not_ready > 0; }))
    return std::nullopt;
  KeepingEnd end(peers.first);
  for (const Event& event : record.events) {
    if (!event.fed || event.packet->response()) continue;
    const Message* const message = peers.at(event.packet->psn());
    const bool own = message != nullptr && message->needs_own_response();
    end.take(*event.packet, own ? static_cast<uint32_t>(message->end() - event.packet->psn()) : 1, !own);
  }
  if (!end.differs()) return std::nullopt;
  std::vector<std::string> ours;
  for (const Packet& packet : record.sent)
    if (packet.response() && is_acknowledgement(packet)) ours.push_back(text_of(packet));
  std::vector<std::string> expected;
  for (const Answer& answer : end.answers()) expected.push_back(text_of(answer, peers));
  const auto [ours_at, expected_at] = std::ranges::mismatch(ours, expected);
  if (ours_at == ours.end() && expected_at == expected.end()) return std::string();
  return fmt::format("we are to send {}, and sent {}",
                     expected_at == expected.end() ? "nothing more" : *expected_at,
                     ours_at == ours.end() ? "nothing more" : *ours_at);
}

}  // namespace uroce::replay
