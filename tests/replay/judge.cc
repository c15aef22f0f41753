#include "judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "allowed_differences.h"
#include "answered.h"
#include "keeping_end.h"
#include "known_deviations.h"
#include "recovery.h"
#include "wire/print.h"

namespace uroce::replay {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

Judge::Judge(const Conversation& conversation, size_t ours, const Requests& own, const Requests& peers,
             Arrival arrival, const Record& record)
    : conversation_(conversation),
      ours_(ours),
      own_(own),
      peers_(peers),
      arrival_(arrival),
      record_(record),
      conditions_(conditions_of(conversation.capture, kEndNames[ours])) {}

std::vector<std::string> Judge::differences() {
  judge_answers();
  judge_requests();
  judge_sends();
  judge_receives();
  return found_;
}

void Judge::fail(std::string what) { found_.push_back(std::move(what)); }

Judge::Packets Judge::captured(bool responses) const {
  Packets found;
  for (const Packet& packet : conversation_.packets) {
    if (conversation_.sender(packet) != ours_ || packet.response() != responses) continue;
    if ((responses ? peers_ : own_).replayed(packet.psn())) found.push_back(&packet);
  }
  return found;
}

Judge::Packets Judge::sent(bool responses) const {
  Packets found;
  for (const Packet& packet : record_.sent) {
    if (packet.response() == responses) found.push_back(&packet);
  }
  return found;
}

// --- answers

void Judge::judge_answers() {
  Packets expected;
  for (const Packet* packet : captured(true)) {
    expected.push_back(&corrected_.emplace_back(by_the_standard(conversation_, *packet, peers_)));
  }
  Packets ours = sent(true);
  if (arrival_ == Arrival::kInBursts) {
    if (newest_answered(expected) != newest_answered(ours))
      fail("answers: not all is acknowledged, or too much");
    leave_out_what_may_be_merged(expected);
    leave_out_what_may_be_merged(ours);
  }
  // In bursts the newest answer is judged.
  if (const auto own_way = arrival_ == Arrival::kOneByOne
                               ? judge_acknowledgements_of_a_keeping_end(peers_, record_)
                               : std::nullopt) {
    if (!own_way->empty()) fail("answers: " + *own_way);
    leave_out_what_may_be_merged(expected);
    leave_out_what_may_be_merged(ours);
  }
  if (std::string difference = compare(expected, ours, conditions_.loss); !difference.empty()) {
    fail("answers: " + difference);
  }
  ours = sent(true);
  for (const Packet* answer : ours) judge_answer(*answer);
}

/// What holds for every answer, also for one that the capture lost: an ACK says how many messages are
/// complete, and the response to a READ or an atomic holds its part of what that got in the end.
void Judge::judge_answer(const Packet& answer) {
  const Psn psn = answer.psn();
  const bool original = answer.parsed.row->headers.has(wire::Header::kAtomicAckEth);
  if (answer.parsed.row->family == wire::Family::kAck && !original) {
    if (answer.aeth().kind == wire::AethKind::kAck && answer.aeth().msn != peers_.complete_at(psn)) {
      fail(fmt::format("an ACK whose MSN should be {}: {}", peers_.complete_at(psn),
                       wire::to_text(answer.parsed)));
    }
    return;
  }
  const Message* message = peers_.at(psn);
  const size_t offset =
      message == nullptr ? 0 : static_cast<size_t>(psn - message->first) * conversation_.mtu;
  const auto payload =
      original ? std::as_bytes(std::span(&answer.parsed.headers.atomic_original, 1)) : answer.parsed.payload;
  const bool asked = message != nullptr && (original ? message->is_atomic() : message->is_read());
  if (!asked || offset + payload.size() > message->payload.size() ||
      !std::ranges::equal(payload, std::span(message->payload).subspan(offset, payload.size()))) {
    fail("a response with something else than the request got: " + wire::to_text(answer.parsed));
  }
}

// --- requests

void Judge::judge_requests() {
  Packets expected = captured(false);
  if (conditions_.duplication) {
    const auto same = [](const Packet* a, const Packet* b) { return a->bytes == b->bytes; };
    expected.erase(std::ranges::unique(expected, same).begin(), expected.end());
  }
  Packets ours = sent(false);
  judge_contents(expected, ours);
  if (std::ranges::any_of(own_.messages, &Message::failed)) {
    // How much left before the refusal came is a matter of speed.
    const auto newest = std::ranges::max_element(
        expected, [](const Packet* a, const Packet* b) { return a->psn().before(b->psn()); });
    std::erase_if(ours, [&](const Packet* packet) { return packet->psn().after((*newest)->psn()); });
  }
  if (!conditions_.reordering && !conditions_.own_recovery) {
    if (std::string difference = compare(expected, ours, conditions_.loss); !difference.empty()) {
      fail("requests: " + difference);
    }
  }
  for (std::string& difference : judge_recovery(own_, conversation_.mtu, record_))
    fail(std::move(difference));
}

/// Whatever the order: all that the kernel sent we sent, and what we sent of it is the same.
void Judge::judge_contents(const Packets& captured, const Packets& ours) {
  // How much of a READ is asked for again is its affair.
  const auto agree = [&](const Packet& own, const Packet& packet) {
    return same_packet(own, packet) || (conditions_.own_recovery && asks_for_part(own, packet));
  };
  for (const Packet* packet : captured) {
    if (std::ranges::none_of(ours, [&](const Packet* own) { return agree(*own, *packet); })) {
      fail(fmt::format("requests: frame {} is not among ours: {}", packet->number,
                       wire::to_text(packet->parsed)));
    }
  }
  for (const Packet* own : ours) {
    const auto about = [&](const Packet* packet) { return packet->psn() == own->psn(); };
    const auto same = [&](const Packet* packet) { return about(packet) && agree(*own, *packet); };
    if (std::ranges::any_of(captured, about) && std::ranges::none_of(captured, same)) {
      fail("requests: not what the kernel sent: " + wire::to_text(own->parsed));
    }
  }
}

// --- completions

namespace {

CompletionOpcode opcode_of(const Message& message) {
  if (message.operation == SendOperation::kCompareSwap) return CompletionOpcode::kCompareSwap;
  if (message.operation == SendOperation::kFetchAdd) return CompletionOpcode::kFetchAdd;
  if (message.is_read()) return CompletionOpcode::kRead;
  return message.is_send() ? CompletionOpcode::kSend : CompletionOpcode::kWrite;
}

/// protocol: the code of the NAK says in which status the request completes.
CompletionStatus status_of(const Message& message) {
  if (message.given_up) return CompletionStatus::kRnrRetryExceeded;
  if (!message.refusal) return CompletionStatus::kSuccess;
  switch (*message.refusal) {
    case wire::NakCode::kInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequest;
    case wire::NakCode::kRemoteAccess:
      return CompletionStatus::kRemoteAccessError;
    default:
      return CompletionStatus::kRemoteOperationError;
  }
}

}  // namespace

/// Each request completes with the answer that acknowledges it to its end, in order, and those behind a
/// failure as flushed.
void Judge::judge_sends() {
  Answered answered(own_);
  bool failed = false;
  for (const Event& event : record_.events) {
    if (!event.fed || !event.packet->response()) continue;
    failed |= answered.take(*event.packet) == Answered::Asks::kFailed;
    if (event.settled && !failed && !has_given_up(event) && event.sends_completed != answered.complete()) {
      return fail(fmt::format("frame {} completes {} requests, with us {}", event.packet->number,
                              answered.complete(), event.sends_completed));
    }
  }
  if (record_.sends.size() != own_.messages.size()) {
    return fail(fmt::format("{} requests of {} completed", record_.sends.size(), own_.messages.size()));
  }
  failed = false;
  for (size_t i = 0; i < own_.messages.size(); ++i) {
    const Message& message = own_.messages[i];
    const Completion& completion = record_.sends[i];
    const CompletionStatus status = failed ? CompletionStatus::kFlushed : status_of(message);
    failed |= message.failed();
    const bool right = completion.wr_id == i && completion.status == status &&
                       (failed || completion.opcode == opcode_of(message));
    if (!right) {
      fail(fmt::format("request {}: completion of {} with status {}, not {}", i, completion.wr_id,
                       static_cast<int>(completion.status), static_cast<int>(status)));
    }
  }
}

/// The RNR NAK after which the requester gave up.
bool Judge::has_given_up(const Event& event) const {
  const Message* message = own_.at(event.packet->psn());
  return message != nullptr && message->given_up;
}

void Judge::judge_receives() {
  std::vector<Completion> expected;
  for (size_t i = 0; i < peers_.messages.size(); ++i) {
    const Message& message = peers_.messages[i];
    if (message.failed() && !(message.is_send() && message.refusal)) break;
    if (!message.takes_receive()) continue;
    Completion& completion = expected.emplace_back();
    completion.wr_id = i;
    completion.opcode = message.is_send() ? CompletionOpcode::kReceive : CompletionOpcode::kReceiveWriteImm;
    completion.status = message.refusal ? CompletionStatus::kLocalLengthError : CompletionStatus::kSuccess;
    completion.bytes = message.length;
    completion.has_immediate = message.has_immediate();
    completion.has_invalidated = message.invalidates();
    completion.immediate = message.invalidates() ? message.invalidate.value : message.immediate;
    completion.solicited = message.solicited;
  }
  if (record_.receives.size() < expected.size()) {
    return fail(fmt::format("{} receives completed, not {}", record_.receives.size(), expected.size()));
  }
  for (size_t i = 0; i < record_.receives.size(); ++i) {
    const Completion& ours = record_.receives[i];
    if (i >= expected.size()) {
      if (ours.status != CompletionStatus::kFlushed)
        fail(fmt::format("receive {} completed unasked", ours.wr_id));
      continue;
    }
    const Completion& right = expected[i];
    bool same = ours.wr_id == right.wr_id && ours.opcode == right.opcode && ours.status == right.status;
    if (right.status == CompletionStatus::kSuccess) {
      same &= ours.bytes == right.bytes && ours.has_immediate == right.has_immediate &&
              ours.has_invalidated == right.has_invalidated && ours.immediate == right.immediate &&
              ours.solicited == right.solicited;
    }
    if (!same) fail(fmt::format("receive {} completed otherwise than its message asks", ours.wr_id));
  }
}

}  // namespace uroce::replay
