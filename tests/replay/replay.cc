#include "replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "judge.h"
#include "our_end.h"

namespace uroce::replay {

namespace {

class Replay {
 public:
  Replay(const Conversation& conversation, size_t ours, Arrival arrival, const PlantedFaults& faults)
      : conversation_(conversation),
        ours_(ours),
        arrival_(arrival),
        faults_(faults),
        own_(requests_of(conversation, ours)),
        peers_(requests_of(conversation, 1 - ours)),
        end_(conversation, ours, own_, peers_) {
    record_.ack_timeout = end_.ack_timeout();
  }

  std::vector<std::string> run() {
    for (const Packet& packet : conversation_.packets) {
      const bool from_us = conversation_.sender(packet) == ours_;
      if (from_us || arrival_ == Arrival::kOneByOne) settle();
      if (waiting_ == 0) end_.advance(packet.time);
      collect();
      if (from_us) {
        post_sends(packet);
      } else {
        post_receives(packet);
        if (replayed(packet)) feed(packet);
      }
    }
    settle();
    // Long enough for whatever timer still runs.
    end_.advance(end_.now() + seconds(1));
    collect();
    if (faults_.memory) end_.memory().spoil();
    auto differences = Judge(conversation_, ours_, own_, peers_, arrival_, record_).differences();
    for (std::string& difference : end_.memory().differences()) differences.push_back(std::move(difference));
    if (peers_.missing) try_missing(differences);
    // The kernel sends no CNP; ours are left out of what is compared.
    if ((cnps_ > 0) != marked_)
      differences.push_back(marked_ ? "data was marked, and there is no CNP" : "a CNP without a mark");
    return differences;
  }

 private:
  [[nodiscard]] bool replayed(const Packet& packet) const {
    return (packet.response() ? own_ : peers_).replayed(packet.psn());
  }

  void feed(const Packet& packet) {
    record_.events.push_back({end_.now(), true, &packet});
    end_.feed(packet);
    marked_ |= (packet.parsed.traffic_class & 3) == 3 && !packet.parsed.payload.empty();
    ++waiting_;
  }

  /// What was fed is dealt with.
  void settle() {
    if (waiting_ == 0) return;
    waiting_ = 0;
    Event* const last = &record_.events.back();
    end_.settle();
    collect();
    last->settled = true;
    last->sends_completed = record_.sends.size();
  }

  void collect() {
    for (const auto& completion : end_.take_sends()) record_.sends.push_back(completion);
    for (auto& completion : end_.take_receives()) {
      if (completion.has_invalidated)
        completion.immediate = end_.memory().captured({completion.immediate}).value;
      record_.receives.push_back(completion);
    }
    for (FedPort::Sent& sent : end_.take_sent()) {
      Packet packet = make_packet(std::move(sent.frame));
      if (!packet.bytes.empty()) faults_.frame(packet);
      if (packet.bytes.empty()) continue;  // also what is not RoCE
      if (packet.parsed.row->family == wire::Family::kCnp) {
        ++cnps_;
        continue;
      }
      packet.time = sent.time;
      record_.sent.push_back(std::move(packet));
      record_.events.push_back({sent.time, false, &record_.sent.back()});
    }
  }

  /// What was asked for by the time of that packet.
  void post_sends(const Packet& packet) {
    while (sends_ < own_.messages.size() && own_.messages[sends_].begun <= packet.number)
      end_.post_send(sends_++);
    collect();
  }

  /// Receives are there from the beginning, but for those whose lack an RNR NAK has told.
  void post_receives(const Packet& next) {
    for (; receives_ < peers_.messages.size(); ++receives_) {
      const Message& message = peers_.messages[receives_];
      if (!message.takes_receive()) continue;
      if (message.given_up || refused_before(message, next) < message.not_ready) return;
      end_.post_receive(receives_);
    }
  }

  /// How often the packet that needs the receive of a message has come before `next`; all of `not_ready` only
  /// when it comes once more.
  [[nodiscard]] uint32_t refused_before(const Message& message, const Packet& next) const {
    const Psn needed = message.is_send() ? message.first : message.end() - 1u;
    uint32_t count = 0;
    for (const Packet& packet : conversation_.packets) {
      if (packet.number >= next.number) break;
      if (conversation_.sender(packet) != ours_ && !packet.response() && packet.psn() == needed) ++count;
    }
    return count;
  }

  /// The operation at which the capture's replay ends has to be refused as unknown. When it no longer is, the
  /// row has to go.
  void try_missing(std::vector<std::string>& differences) {
    const Requests::Missing& missing = *peers_.missing;
    const size_t before = record_.sent.size();
    feed(conversation_.packets[index_of(missing.frame)]);
    settle();
    if (record_.sent.size() == before + 1 && is_refusal(record_.sent.back(), missing.psn)) return;
    differences.push_back(
        fmt::format("frame {}: {} is no longer refused: take it out of missing.txt and replay it",
                    missing.frame, missing.operation));
  }

  [[nodiscard]] bool is_refusal(const Packet& answer, Psn psn) const {
    const wire::Aeth& aeth = answer.aeth();
    return answer.parsed.row->family == wire::Family::kAck && aeth.kind == wire::AethKind::kNak &&
           aeth.value == static_cast<uint8_t>(wire::NakCode::kInvalidRequest) && answer.psn() == psn &&
           aeth.msn == peers_.messages.size();
  }

  [[nodiscard]] size_t index_of(size_t number) const {
    const auto found = std::ranges::find(conversation_.packets, number, &Packet::number);
    return static_cast<size_t>(found - conversation_.packets.begin());
  }

  const Conversation& conversation_;
  const size_t ours_;
  const Arrival arrival_;
  const PlantedFaults& faults_;
  const Requests own_;
  const Requests peers_;
  OurEnd end_;
  Record record_;
  size_t waiting_ = 0;   // packets that were fed and not yet dealt with
  size_t sends_ = 0;     // posted
  size_t cnps_ = 0;      // sent
  bool marked_ = false;  // data that was fed
  size_t receives_ = 0;  // messages of the peer that were looked at
};

}  // namespace

std::vector<std::string> replay(const Conversation& conversation, size_t ours, Arrival arrival,
                                const PlantedFaults& faults) {
  return Replay(conversation, ours, arrival, faults).run();
}

}  // namespace uroce::replay
