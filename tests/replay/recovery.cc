#include "recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "answered.h"
#include "qp/recovery/transport_timers.h"
#include "wire/print.h"

namespace uroce::replay {

namespace {

/// What went alone may go again when its answer is late, which is by the round trips so far, but this at
/// least.
constexpr Duration kProbeLeast = microseconds(100);

class Recovery {
 public:
  Recovery(const Requests& own, uint32_t mtu, const Record& record)
      : mtu_(mtu), record_(record), answered_(own), next_(own.first) {}

  std::vector<std::string> judge() {
    for (const Event& event : record_.events) {
      if (event.fed && event.packet->response()) take_answer(event);
      if (!event.fed && !event.packet->response()) take_request(event);
    }
    return std::move(found_);
  }

 private:
  void take_answer(const Event& event) {
    if (due_now_ && settled_) fail(event, "a sequence NAK was not followed by its packet");
    settled_ = event.settled;
    const Psn before = answered_.oldest();
    const Answered::Asks asks = answered_.take(*event.packet);
    if (answered_.oldest() != before) {
      // With the packet that went alone the peer has acknowledged it and no more: it keeps nothing.
      asked_ = alone_ && answered_.oldest() == *alone_ + 1u && !answered_.waits();
      gone_back_ = false;
      alone_.reset();
      last_ = event.time;
    }
    // What was answered while it waited to be sent again need not be sent.
    if (next_.before(answered_.oldest())) next_ = answered_.oldest();
    if (asks == Answered::Asks::kLater) {
      wait_until_ = event.time + qp::rnr_wait(event.packet->aeth().value);
      asked_ = true;
      gone_back_ = false;
    }
    if (asks == Answered::Asks::kAgain && !gone_back_) {
      asked_ = true;
      due_now_ = is_sequence_nak(*event.packet);
    }
  }

  void take_request(const Event& event) {
    const Psn psn = event.packet->psn();
    // What was missing may go alone.
    if (resume_ && psn == *resume_) next_ = psn;
    if (event.time < wait_until_) fail(event, "before the RNR NAK's time");
    const bool back = psn != next_ || (due_now_ && psn == answered_.oldest());
    if (back) {
      if (psn != answered_.oldest()) {
        fail(event, fmt::format("neither the next ({:#x}) nor the oldest unanswered ({:#x})", next_.value(),
                                answered_.oldest().value()));
      } else if (!asked_ && event.time - last_ < (alone_ ? kProbeLeast : record_.ack_timeout)) {
        fail(event, "sent again without a reason");
      }
      if (asked_) {
        alone_ = psn;
        resume_ = next_;
      }
      asked_ = due_now_ = false;
      gone_back_ = true;
    } else {
      resume_.reset();
    }
    next_ = psn + packets(*event.packet);
    last_ = event.time;
  }

  [[nodiscard]] uint32_t packets(const Packet& request) const {
    if (request.parsed.row->family != wire::Family::kReadRequest) return 1;
    return std::max(1u, (request.parsed.headers.reth.length + mtu_ - 1) / mtu_);
  }

  static bool is_sequence_nak(const Packet& packet) {
    return packet.parsed.row->family == wire::Family::kAck && packet.aeth().kind == wire::AethKind::kNak;
  }

  void fail(const Event& event, const std::string& what) {
    found_.push_back(fmt::format("at {:.3f} ms, {}: {}", static_cast<double>(event.time.ns) / 1e6,
                                 wire::to_text(event.packet->parsed), what));
  }

  const uint32_t mtu_;
  const Record& record_;
  Answered answered_;
  Psn next_;
  Instant last_;               // packet out, or news
  Instant wait_until_;         // RNR
  bool asked_ = false;         // an answer asks for the oldest packet
  bool due_now_ = false;       // and that was a sequence NAK
  bool settled_ = true;        // there was time to answer it
  bool gone_back_ = false;     // since there was news
  std::optional<Psn> alone_;   // went last, after a sequence NAK
  std::optional<Psn> resume_;  // where it was before that
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> judge_recovery(const Requests& own, uint32_t mtu, const Record& record) {
  return Recovery(own, mtu, record).judge();
}

}  // namespace uroce::replay
