#include "tests/sim/flow.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace uroce::sim {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

namespace {

bool takes_receive(SendOperation operation) {
  return operation == SendOperation::kSend || operation == SendOperation::kSendImm ||
         operation == SendOperation::kWriteImm;
}

bool is_write(SendOperation operation) {
  return operation == SendOperation::kWrite || operation == SendOperation::kWriteImm;
}

bool has_immediate(SendOperation operation) {
  return operation == SendOperation::kSendImm || operation == SendOperation::kWriteImm;
}

CompletionOpcode opcode_of(SendOperation operation) {
  if (is_write(operation)) return CompletionOpcode::kWrite;
  return operation == SendOperation::kRead ? CompletionOpcode::kRead : CompletionOpcode::kSend;
}

uint32_t random_size(Random& random, uint32_t mtu, uint32_t most) {
  switch (random.below(6)) {
    case 0:
      return static_cast<uint32_t>(random.below(9));
    case 1:  // around a whole number of packets
      return std::min(most, static_cast<uint32_t>(mtu * (1 + random.below(4)) + random.below(3) - 1));
    case 2:
      return static_cast<uint32_t>(random.below(most + 1));
    default:
      return static_cast<uint32_t>(random.below(std::min(most, 4 * mtu) + 1));
  }
}

}  // namespace

Flow::Flow(Endpoint& from, Endpoint& to, const Options& options)
    : from_(from), to_(to), options_(options), random_(options.seed) {}

void Flow::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

bool Flow::done() const {
  return !failure_.empty() ||
         (posted_ == options_.messages && outstanding_.empty() && to_be_received_.empty()) ||
         (broken_ && outstanding_.empty());
}

void Flow::act() {
  poll_sends();
  poll_receives();
  if (stopped_ || broken_) return;
  for (uint64_t tries = random_.below(4); tries > 0 && failure_.empty(); --tries) {
    if (posted_ < options_.messages && !post()) break;
  }
  if (random_.chance(1, 2)) post_receive();
}

/// Pieces of `arena` with room for `bytes` together, some of them empty.
std::optional<Flow::Slots> Flow::lend_pieces(Arena& arena, uint64_t bytes) {
  Slots slots;
  const uint64_t pieces = random_.chance(1, 2) ? 1 : 1 + random_.below(Endpoint::kSegments);
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t take = i + 1 == pieces ? bytes : random_.below(bytes + 1);
    const auto slot = arena.lend(take, random_);
    if (!slot) {
      for (const Arena::Slot& lent : slots) static_cast<void>(arena.give_back(lent));
      return std::nullopt;
    }
    slots.push_back(*slot);
    bytes -= take;
  }
  return slots;
}

void Flow::give_back(Arena& arena, const Slots& slots) {
  for (const Arena::Slot& slot : slots) {
    if (const std::string wrong = arena.give_back(slot); !wrong.empty()) fail("given back: " + wrong);
  }
}

/// Borrows memory and writes what the message will carry to where it comes from.
bool Flow::prepare(Message& message, bool inline_data) {
  if (!inline_data) {
    auto local = lend_pieces(from_.arena, message.bytes.size());
    if (!local) return false;
    message.local = *local;
  }
  const bool read = message.operation == SendOperation::kRead;
  if (read || is_write(message.operation)) {
    message.remote = to_.arena.lend(message.bytes.size(), random_);
    if (!message.remote) {
      give_back(from_.arena, message.local);
      return false;
    }
  }
  if (read) {
    to_.arena.write(*message.remote, message.bytes);
    return true;
  }
  size_t at = 0;
  for (const Arena::Slot& slot : message.local) {
    from_.arena.write(slot, std::span(message.bytes).subspan(at, slot.length));
    at += slot.length;
  }
  return true;
}

void Flow::fill_randomly(std::span<std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(uint64_t)))) {
    const uint64_t bits = random_.next();
    std::memcpy(bytes.data(), &bits, std::min(bytes.size(), sizeof bits));
  }
}

bool Flow::post() {
  if (from_.sends().outstanding() == Endpoint::kDepth || outstanding_.size() == Endpoint::kDepth)
    return false;
  if (from_.arena.crowded() || to_.arena.crowded()) return false;
  Message message;
  message.id = posted_;
  constexpr std::array kOperations = {SendOperation::kSend, SendOperation::kSendImm, SendOperation::kWrite,
                                      SendOperation::kWriteImm, SendOperation::kRead};
  message.operation = kOperations[random_.below(kOperations.size())];
  message.bytes.resize(random_size(random_, options_.mtu, options_.bytes_max));
  fill_randomly(message.bytes);
  message.immediate = static_cast<uint32_t>(random_.next());
  // The last one is signaled, so that the end is seen.
  message.signaled = posted_ + 1 == options_.messages || random_.chance(2, 3);
  message.solicited = random_.chance(1, 4);
  message.spoiled = options_.spoil > 0 && !message.bytes.empty() && random_.chance(1, options_.spoil);
  const bool inline_data = message.operation != SendOperation::kRead &&
                           message.bytes.size() <= Endpoint::kInlineBytes && random_.chance(1, 2);
  if (!prepare(message, inline_data)) return false;

  fill(*from_.sends().reserve(), message, inline_data);
  from_.publish_sends();
  ++posted_;
  if (takes_receive(message.operation)) to_be_received_.push_back(message);
  outstanding_.push_back(std::move(message));
  return true;
}

void Flow::fill(queue::SendRequest& request, const Message& message, bool inline_data) {
  request.wr_id = message.id;
  request.operation = message.operation;
  request.length = static_cast<uint32_t>(message.bytes.size());
  request.immediate = message.immediate;
  request.signaled = message.signaled;
  request.solicited = message.solicited;
  request.fence = random_.chance(1, 10);
  request.inline_data = inline_data;
  if (message.remote) {
    request.remote_address = to_.arena.iova(*message.remote);
    request.rkey = to_.arena.keys().rkey;
    if (message.spoiled) request.rkey.value ^= 1;
  }
  if (inline_data) {
    std::copy(message.bytes.begin(), message.bytes.end(), from_.sends().inline_bytes(request));
    return;
  }
  request.segments = static_cast<uint16_t>(message.local.size());
  for (size_t i = 0; i < message.local.size(); ++i) {
    from_.sends().segments(request)[i] = from_.arena.segment(message.local[i]);
  }
}

/// A receive for the next message that will need one. It may come late (the peer then hears of it by RNR
/// NAK), and may be longer than the message.
void Flow::post_receive() {
  const size_t waiting = receives_.size();
  if (waiting == to_be_received_.size() || waiting == Endpoint::kDepth) return;
  const uint64_t bytes =
      to_be_received_[waiting].bytes.size() + (random_.chance(1, 2) ? random_.below(100) : 0);
  auto slots = lend_pieces(to_.arena, bytes);
  if (!slots) return;
  queue::ReceiveRequest& request = *to_.receives().reserve();
  request.wr_id = receives_posted_;
  request.length = static_cast<uint32_t>(bytes);
  request.segments = static_cast<uint16_t>(slots->size());
  for (size_t i = 0; i < slots->size(); ++i)
    to_.receives().segments(request)[i] = to_.arena.segment((*slots)[i]);
  to_.publish_receives();
  receives_.push_back({receives_posted_++, std::move(*slots)});
}

void Flow::poll_sends() {
  std::array<Completion, 8> completions;
  const size_t count = from_.poll_sends(completions);
  for (size_t i = 0; i < count && failure_.empty(); ++i) {
    const Completion& completion = completions[i];
    const bool success = completion.status == CompletionStatus::kSuccess;
    if (!success && !options_.errors_expected) {
      return fail("send failed with status " + std::to_string(static_cast<int>(completion.status)));
    }
    if (success && broken_) return fail("success after an error");
    // The first error tells its cause (unless it was met elsewhere); everything after it was flushed.
    if (broken_ && completion.status != CompletionStatus::kFlushed) return fail("not flushed after an error");
    broken_ |= !success;
    // Unsignaled ones before it are complete as well; only successes may be unsignaled.
    while (!outstanding_.empty() && outstanding_.front().id != completion.wr_id) {
      if (outstanding_.front().signaled || from_.signal_all) return fail("completions out of order");
      complete(outstanding_.front(), true);
      outstanding_.pop_front();
    }
    if (outstanding_.empty())
      return fail("completed twice or never posted: " + std::to_string(completion.wr_id));
    const Message& message = outstanding_.front();
    if (success && !message.signaled && !from_.signal_all) return fail("a completion that was not asked for");
    if (completion.opcode != opcode_of(message.operation)) return fail("wrong opcode");
    if (completion.local != from_.number() || completion.remote != to_.number()) return fail("wrong number");
    if (success && message.remote && message.spoiled) return fail("success with a wrong key");
    complete(message, success);
    outstanding_.pop_front();
  }
}

/// A send work request is complete: what it wrote is there, what it read is here, and nothing beside it.
void Flow::complete(const Message& message, bool success) {
  ++completed_;
  // What a broken connection left half done can be anything.
  if (!success) return;
  if (is_write(message.operation)) to_.arena.expect(*message.remote, message.bytes);
  if (message.operation == SendOperation::kRead) {
    size_t at = 0;
    for (const Arena::Slot& slot : message.local) {
      from_.arena.expect(slot, std::span(message.bytes).subspan(at, slot.length));
      at += slot.length;
    }
  }
  if (message.remote) give_back(to_.arena, {*message.remote});
  give_back(from_.arena, message.local);
}

void Flow::poll_receives() {
  std::array<Completion, 8> completions;
  const size_t count = to_.poll_receives(completions);
  for (size_t i = 0; i < count && failure_.empty(); ++i) {
    const Completion& completion = completions[i];
    if (receives_.empty() || receives_.front().id != completion.wr_id) return fail("receives out of order");
    if (completion.status != CompletionStatus::kSuccess) {
      if (!options_.errors_expected) return fail("receive failed");
    } else {
      if (to_be_received_.empty()) return fail("received from nowhere");
      check_received(to_be_received_.front(), receives_.front(), completion);
      to_be_received_.pop_front();
    }
    receives_.pop_front();
  }
}

void Flow::check_received(const Message& message, const Receive& receive, const Completion& completion) {
  const bool write = is_write(message.operation);
  if (completion.opcode != (write ? CompletionOpcode::kReceiveWriteImm : CompletionOpcode::kReceive)) {
    return fail("received: wrong opcode");
  }
  if (completion.local != to_.number()) return fail("received: wrong number");
  if (completion.bytes != message.bytes.size()) return fail("received: wrong length");
  if (completion.has_immediate != has_immediate(message.operation)) return fail("received: immediate or not");
  if (completion.has_immediate && completion.immediate != message.immediate)
    return fail("received: wrong immediate");
  if (completion.solicited != message.solicited) return fail("received: solicited or not");
  size_t at = 0;
  for (const Arena::Slot& slot : receive.slots) {
    if (write) break;
    const size_t take = std::min<size_t>(slot.length, message.bytes.size() - at);
    to_.arena.expect(slot, std::span(message.bytes).subspan(at, take));
    at += take;
  }
  give_back(to_.arena, receive.slots);
}

}  // namespace uroce::sim
