#include "stream_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qp/responder/operation_checks.h"
#include "wire/frame.h"

namespace uroce::fuzz {

using wire::Operation;

namespace {

constexpr uint32_t kMtu = StreamTarget::kMtu;
constexpr uint32_t kMessageMax = 1200;

/// Numbers at which something may go wrong.
uint32_t edge(Choices& choices) {
  constexpr std::array<uint32_t, 8> kEdges = {0, 1, 7, 255, 257, 0x80000000, 0x80000001, 0xFFFFFFFF};
  return choices.once_in(4) ? static_cast<uint32_t>(choices.bytes(4)) : kEdges[choices.below(kEdges.size())];
}

}  // namespace

void StreamPeer::restart() {
  target_->restart();
  next_ = target_->first_expected;
  left_ = 0;
  first_ = true;
  asked_count_ = 0;
  answered_packets_ = 0;
  msn_ = 0;
}

wire::Headers StreamPeer::headers(Operation operation, Psn psn) const {
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(qp::service_of(target_->options.type), operation);
  headers.bth.destination = {0x11};
  headers.bth.psn = psn;
  headers.deth = {0x11111111, {0x22}};
  headers.aeth = wire::Aeth::ack(msn_);
  headers.xrc_srq = target_->receives_number.value;
  return headers;
}

/// What the target asks for or answers.
void StreamPeer::observe(std::span<const std::byte> frame) {
  wire::Packet packet;
  require(wire::parse_frame(frame, packet).result == wire::ParseResult::kRoce, "what is sent parses");
  require(wire::icrc_matches(packet), "what is sent has a right ICRC");
  if (!packet.row->response) return note(packet);
  const wire::Aeth& aeth = packet.headers.aeth;
  if (packet.row->family != wire::Family::kAck || aeth.kind == wire::AethKind::kAck) return;
  // From where it wants to hear it again, if with other bytes.
  next_ = packet.headers.bth.psn;
  left_ = 0;
  first_ = true;
}

void StreamPeer::note(const wire::Packet& packet) {
  Asked asked{.psn = packet.headers.bth.psn};
  switch (packet.row->family) {
    case wire::Family::kReadRequest:
      asked.kind = Asked::Kind::kRead;
      asked.bytes = packet.headers.reth.length;
      asked.packets = qp::response_packets(asked.bytes, kMtu);
      break;
    case wire::Family::kAtomic:
      asked.kind = Asked::Kind::kAtomic;
      break;
    case wire::Family::kAtomicWrite:
    case wire::Family::kFlush:
      asked.kind = Asked::Kind::kDone;
      break;
    default:
      break;
  }
  // What is sent again takes the place of what was there.
  while (asked_count_ > 0 && !asked_[(asked_first_ + asked_count_ - 1) % kAskedMax].psn.before(asked.psn))
    --asked_count_;
  if (asked_count_ == 0) answered_packets_ = 0;
  if (asked_count_ < kAskedMax) asked_[(asked_first_ + asked_count_++) % kAskedMax] = asked;
}

void StreamPeer::begin_message(Choices& choices) {
  write_ = choices.once_in(2);
  left_ = choices.below(kMessageMax);
  // Short ones are placed when their burst ends.
  if (left_ % 4 == 0) left_ /= 20;
  if (target_->options.type == qp::Type::kUd) {
    write_ = false;
    left_ = std::min(left_, kMtu);
  }
  first_ = true;
}

/// SEND or WRITE, the next packet of the message.
Operation StreamPeer::next_of_message(Choices& choices, wire::Headers& headers, uint32_t& bytes) {
  if (first_) begin_message(choices);
  const bool first = std::exchange(first_, false);
  const bool last = left_ <= kMtu;
  const bool immediate = last && choices.once_in(4);
  headers.reth = {StreamTarget::kTargetIova + choices.below(0x4000), target_->target.rkey, left_};
  headers.immediate = 0x01020304;
  if (choices.once_in(4)) use_other_key(choices, headers);
  headers.invalidate = target_->keys.key(StreamKeys::kind(choices.below(StreamKeys::kKinds)));
  bytes = std::min(left_, kMtu);
  left_ -= bytes;
  if (last) first_ = true;
  if (write_) {
    if (!last) return first ? Operation::kWriteFirst : Operation::kWriteMiddle;
    if (first) return immediate ? Operation::kWriteOnlyImm : Operation::kWriteOnly;
    return immediate ? Operation::kWriteLastImm : Operation::kWriteLast;
  }
  if (!last) return first ? Operation::kSendFirst : Operation::kSendMiddle;
  if (last && choices.once_in(4) && is_connected())
    return first ? Operation::kSendOnlyInvalidate : Operation::kSendLastInvalidate;
  if (first) return immediate ? Operation::kSendOnlyImm : Operation::kSendOnly;
  return immediate ? Operation::kSendLastImm : Operation::kSendLast;
}

bool StreamPeer::is_connected() const {
  return target_->options.type != qp::Type::kUc && target_->options.type != qp::Type::kUd;
}

/// Of a region whose keys and memory come and go.
void StreamPeer::use_other_key(Choices& choices, wire::Headers& headers) const {
  const StreamKeys::Kind kind =
      choices.once_in(3) ? StreamKeys::Kind::kGone : StreamKeys::kind(choices.below(StreamKeys::kKinds));
  headers.reth.rkey = headers.atomic.rkey = target_->keys.key(kind);
  headers.reth.address = headers.atomic.address =
      target_->keys.iova(kind) + choices.below(StreamKeys::kBytes / 8) * 8;
}

void StreamPeer::send_request(Choices& choices) {
  constexpr std::array kAnswered = {Operation::kReadRequest, Operation::kFetchAdd, Operation::kCompareSwap,
                                    Operation::kAtomicWrite, Operation::kFlush};
  wire::Headers headers = this->headers(Operation::kSendOnly, next_);
  uint32_t bytes = 0;
  uint32_t numbers = 1;
  Operation operation;
  if (is_connected() && first_ && choices.once_in(3)) {
    operation = kAnswered[choices.below(kAnswered.size())];
    const uint32_t length = operation == Operation::kReadRequest ? choices.below(2048) : 8;
    headers.reth = {StreamTarget::kTargetIova + uint64_t{choices.below(0x700)} * 8, target_->target.rkey,
                    length};
    headers.atomic = {headers.reth.address, target_->target.rkey, 3, 5};
    if (choices.once_in(3)) use_other_key(choices, headers);
    headers.feth.global_visibility = true;
    if (operation == Operation::kReadRequest) numbers = qp::response_packets(length, kMtu);
    if (operation == Operation::kAtomicWrite) bytes = 8;
  } else {
    operation = next_of_message(choices, headers, bytes);
  }
  headers.bth.opcode = wire::Opcode::make(headers.bth.opcode.service(), operation);
  headers.bth.ack_request = choices.once_in(2);
  next_ += numbers;
  const auto content = static_cast<uint8_t>(choices.bytes(1));
  mutate(choices, headers, bytes);
  send(headers, bytes, content);
}

void StreamPeer::send_answer(Choices& choices) {
  if (asked_count_ == 0) {
    wire::Headers headers = this->headers(Operation::kAcknowledge, Psn(choices.below(0x10000)));
    uint32_t bytes = 0;
    mutate(choices, headers, bytes);
    return send(headers, bytes, 0);
  }
  const Asked& asked = asked_[asked_first_];
  if (choices.once_in(16)) {
    wire::Headers nak = headers(Operation::kAcknowledge, asked.psn);
    const auto code = static_cast<uint8_t>(choices.below(4));
    nak.aeth = {choices.once_in(2) ? wire::AethKind::kNak : wire::AethKind::kRnrNak, code, msn_};
    return send(nak, 0, 0);
  }
  const uint32_t index = answered_packets_;
  const bool last = index + 1 == asked.packets;
  uint32_t bytes = 0;
  Operation operation = Operation::kAcknowledge;
  if (asked.kind == Asked::Kind::kRead) {
    bytes = std::min(kMtu, asked.bytes - std::min(asked.bytes, index * kMtu));
    operation = last ? (index == 0 ? Operation::kReadResponseOnly : Operation::kReadResponseLast)
                     : (index == 0 ? Operation::kReadResponseFirst : Operation::kReadResponseMiddle);
  } else if (asked.kind == Asked::Kind::kAtomic) {
    operation = Operation::kAtomicAcknowledge;
  } else if (asked.kind == Asked::Kind::kDone) {
    operation = Operation::kReadResponseOnly;
  }
  if (last) ++msn_;
  wire::Headers headers = this->headers(operation, asked.psn + index);
  if (choices.once_in(8)) headers.aeth.value = static_cast<uint8_t>(choices.below(32));
  ++answered_packets_;
  if (last) {
    asked_first_ = (asked_first_ + 1) % kAskedMax;
    --asked_count_;
    answered_packets_ = 0;
  }
  mutate(choices, headers, bytes);
  send(headers, bytes, static_cast<uint8_t>(choices.bytes(1)));
}

/// Nothing most of the time, else any one thing.
void StreamPeer::mutate(Choices& choices, wire::Headers& headers, uint32_t& bytes) const {
  if (!choices.once_in(3)) return;
  switch (choices.below(12)) {
    case 0:
      headers.bth.psn += choices.below(8);
      break;
    case 1:
      headers.bth.psn = headers.bth.psn - choices.below(8);
      break;
    case 2:
      headers.bth.psn = Psn(static_cast<uint32_t>(choices.bytes(3)));
      break;
    case 3:
      headers.bth.opcode =
          wire::Opcode::make(headers.bth.opcode.service(), static_cast<Operation>(choices.below(32)));
      break;
    case 4:
      bytes = choices.below(4097);
      break;
    case 5:
      bytes += choices.below(8);
      break;
    case 6:
      headers.reth.length = edge(choices);
      break;
    case 7:
      headers.reth.rkey = headers.atomic.rkey = {static_cast<uint32_t>(choices.bytes(4))};
      if (choices.once_in(2)) break;
      headers.reth.rkey = headers.atomic.rkey = target_->source.rkey;
      headers.reth.address = headers.atomic.address = StreamTarget::kSourceIova + choices.below(0x1000);
      break;
    case 8:
      headers.reth.address = headers.atomic.address =
          choices.once_in(2) ? StreamTarget::kTargetIova + 0x3F00 + choices.below(0x200) : choices.bytes(8);
      break;
    case 9:
      headers.aeth = {static_cast<wire::AethKind>(choices.below(4)), static_cast<uint8_t>(choices.below(32)),
                      static_cast<uint32_t>(choices.bytes(3))};
      break;
    case 10:
      headers.feth = {choices.once_in(2), choices.once_in(2), choices.once_in(2)};
      headers.deth.qkey ^= choices.below(2);
      headers.xrc_srq ^= choices.below(2);
      break;
    default:
      headers.invalidate = choices.once_in(2) ? target_->target.rkey : MemoryKey{edge(choices)};
      headers.bth.partition_key = static_cast<uint16_t>(0xFFFF ^ choices.below(2));
  }
}

void StreamPeer::send(const wire::Headers& headers, uint32_t bytes, uint8_t content) {
  if (!wire::opcode_row(headers.bth.opcode).valid) return;
  wire::Path path = target_->path;
  std::swap(path.source, path.destination);
  std::swap(path.source_mac, path.destination_mac);
  const wire::FrameTemplate frame_template(path);
  bytes = std::min(bytes, wire::kPayloadBytesMax);
  frame_number_ = (frame_number_ + 1) % frames_.size();
  const std::span<std::byte> frame = frames_[frame_number_];
  std::memset(wire::write_headers(frame, frame_template, headers, bytes), content, bytes);
  const uint32_t length = wire::finish_frame(frame, frame_template, headers.bth.opcode, bytes);
  wire::Packet packet;
  if (wire::parse_frame(frame.first(length), packet).result == wire::ParseResult::kRoce)
    target_->show(packet);
}

}  // namespace uroce::fuzz
