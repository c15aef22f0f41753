#include "messages.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace uroce::replay {

namespace {

using queue::SendOperation;
using wire::Family;
using wire::Position;

/// The earliest packet of each PSN, by distance from the first one.
using ByPsn = std::map<uint32_t, const Packet*>;

class Deduction {
 public:
  Deduction(const Conversation& conversation, size_t end) : conversation_(conversation), end_(end) {}

  Requests run() {
    index();
    for (uint32_t at = 0; !by_psn_.empty() && at <= by_psn_.rbegin()->first && !found_.missing;) {
      at += take(at);
    }
    for (Message& message : found_.messages) {
      message.begun = begun(message);
      take_answers(message);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool asks(const Packet& packet) const {
    return conversation_.sender(packet) == end_ && !packet.response();
  }

  void index() {
    const auto& packets = conversation_.packets;
    const auto first = std::ranges::find_if(packets, [&](const Packet& packet) { return asks(packet); });
    if (first == packets.end()) return;
    found_.first = first->psn();
    for (const Packet& packet : packets) {  // the first one captured need not be the first one sent
      if (asks(packet) && packet.psn().before(found_.first)) found_.first = packet.psn();
    }
    for (const Packet& packet : packets) {
      if (asks(packet)) by_psn_.emplace(static_cast<uint32_t>(packet.psn() - found_.first), &packet);
    }
  }

  const Packet& packet_at(uint32_t at) const {
    const auto found = by_psn_.find(at);
    if (found == by_psn_.end()) throw std::runtime_error("a request packet is nowhere in the capture");
    return *found->second;
  }

  /// The message that begins there; PSNs that it takes.
  uint32_t take(uint32_t at) {
    const Packet& packet = packet_at(at);
    const wire::OpcodeRow& row = *packet.parsed.row;
    if (row.position != Position::kFirst && row.position != Position::kOnly) {
      throw std::runtime_error("a message does not begin with its first packet");
    }
    Message message;
    message.first = packet.psn();
    if (row.family == Family::kReadRequest) {
      message.operation = SendOperation::kRead;
      take_reth(packet, message);
      message.packets = packets_of(message.length);
      message.payload.resize(message.length);
    } else if (row.family == Family::kAtomic) {
      take_atomic(packet, message);
    } else if (row.family == Family::kSend || row.family == Family::kWrite) {
      take_data(at, message);
    } else {
      miss(packet);
    }
    if (found_.missing) return 1;
    found_.messages.push_back(std::move(message));
    return found_.messages.back().packets;
  }

  void miss(const Packet& packet) {
    found_.missing = {packet.number, packet.psn(), std::string(packet.parsed.row->name)};
  }

  [[nodiscard]] uint32_t packets_of(uint32_t length) const {
    return std::max(1u, (length + conversation_.mtu - 1) / conversation_.mtu);
  }

  static void take_reth(const Packet& packet, Message& message) {
    const wire::Reth& reth = packet.parsed.headers.reth;
    message.address = reth.address;
    message.rkey = reth.rkey;
    message.length = reth.length;
  }

  static void take_atomic(const Packet& packet, Message& message) {
    const wire::AtomicEth& atomic = packet.parsed.headers.atomic;
    const bool swap = packet.parsed.row->opcode.operation() == wire::Operation::kCompareSwap;
    message.operation = swap ? SendOperation::kCompareSwap : SendOperation::kFetchAdd;
    message.address = atomic.address;
    message.rkey = atomic.rkey;
    message.operands = {atomic.swap_or_add, atomic.compare};
    message.length = queue::kAtomicBytes;
    message.payload.resize(message.length);
  }

  void take_data(uint32_t at, Message& message) {
    const bool write = packet_at(at).parsed.row->family == Family::kWrite;
    if (write) take_reth(packet_at(at), message);
    message.operation = write ? SendOperation::kWrite : SendOperation::kSend;
    for (uint32_t i = at;; ++i) {
      // A WRITE that was refused early tells its length, though not all of it left.
      if (write && !by_psn_.contains(i)) break;
      const Packet& packet = packet_at(i);
      const wire::OpcodeRow& row = *packet.parsed.row;
      const auto payload = packet.parsed.payload;
      message.payload.insert(message.payload.end(), payload.begin(), payload.end());
      message.packets = i - at + 1;
      if (row.position == Position::kFirst || row.position == Position::kMiddle) continue;
      message.solicited = packet.parsed.headers.bth.solicited;
      if (row.headers.has(wire::Header::kImmediate)) {
        message.immediate = packet.parsed.headers.immediate;
        message.operation = write ? SendOperation::kWriteImm : SendOperation::kSendImm;
      }
      if (row.headers.has(wire::Header::kInvalidate)) {
        message.invalidate = packet.parsed.headers.invalidate;
        message.operation = SendOperation::kSendInvalidate;
      }
      break;
    }
    if (!write) message.length = static_cast<uint32_t>(message.payload.size());
    message.payload.resize(message.length);
    message.packets = packets_of(message.length);
  }

  [[nodiscard]] size_t begun(const Message& message) const {
    for (const Packet& packet : conversation_.packets) {
      if (asks(packet) && !packet.psn().before(message.first)) return packet.number;
    }
    return 0;
  }

  void take_answers(Message& message) const {
    for (const Packet& packet : conversation_.packets) {
      if (conversation_.sender(packet) == end_) continue;
      if (!packet.response() || packet.psn().before(message.first) || !packet.psn().before(message.end())) {
        if (message.given_up && packet.response()) message.given_up = false;
        continue;
      }
      if (packet.parsed.row->family == Family::kReadResponse) take_read_data(packet, message);
      if (packet.parsed.row->headers.has(wire::Header::kAtomicAckEth)) take_original(packet, message);
      if (packet.parsed.row->family == Family::kAck) take_ack(packet, message);
    }
  }

  void take_read_data(const Packet& packet, Message& message) const {
    const size_t offset = static_cast<size_t>(packet.psn() - message.first) * conversation_.mtu;
    const auto payload = packet.parsed.payload;
    if (!message.is_read() || offset + payload.size() > message.payload.size()) {
      throw std::runtime_error("a READ response without a request");
    }
    std::ranges::copy(payload, message.payload.begin() + static_cast<ptrdiff_t>(offset));
  }

  static void take_original(const Packet& packet, Message& message) {
    if (!message.is_atomic()) throw std::runtime_error("an ATOMIC response without a request");
    std::memcpy(message.payload.data(), &packet.parsed.headers.atomic_original, message.payload.size());
  }

  /// Given up when nothing else comes after an RNR NAK.
  void take_ack(const Packet& packet, Message& message) const {
    const wire::Aeth& aeth = packet.aeth();
    message.given_up = aeth.kind == wire::AethKind::kRnrNak;
    if (aeth.kind == wire::AethKind::kRnrNak) ++message.not_ready;
    if (aeth.kind == wire::AethKind::kNak && aeth.value != 0) {
      message.refusal = static_cast<wire::NakCode>(aeth.value);
      message.accepted = static_cast<uint32_t>(packet.psn() - message.first) * conversation_.mtu;
    }
  }

  const Conversation& conversation_;
  const size_t end_;
  ByPsn by_psn_;
  Requests found_;
};

}  // namespace

const Message* Requests::at(Psn psn) const {
  for (const Message& message : messages) {
    if (!psn.before(message.first) && psn.before(message.end())) return &message;
  }
  return nullptr;
}

uint32_t Requests::complete_at(Psn psn) const {
  uint32_t count = 0;
  for (const Message& message : messages) {
    const Psn complete = message.is_read() ? message.first : message.end() - 1u;
    if (!complete.after(psn)) ++count;
  }
  return count;
}

Requests requests_of(const Conversation& conversation, size_t end) {
  return Deduction(conversation, end).run();
}

}  // namespace uroce::replay
