#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conversation.h"
#include "queue/work_request.h"
#include "wire/headers.h"

namespace uroce::replay {

/// A work request, as its packets and their answers tell.
struct Message {
  queue::SendOperation operation = queue::SendOperation::kSend;
  Psn first;
  uint32_t packets = 1;  // PSNs that it takes
  uint32_t length = 0;
  uint64_t address = 0;  // of the peer's memory
  MemoryKey rkey;
  uint32_t immediate = 0;
  MemoryKey invalidate;
  bool solicited = false;
  queue::AtomicOperands operands;
  // SEND, WRITE: of its packets; READ: of their answers; an atomic: the original value as it lies in memory.
  // Zeros where nothing was captured.
  Bytes payload;

  size_t begun = 0;  // number of the first frame that shows it, or a later one: it was posted by then

  // What the other end said to it.
  std::optional<wire::NakCode> refusal;  // for good
  uint32_t accepted = 0;                 // bytes before the packet that was refused
  uint32_t not_ready = 0;                // RNR NAKs
  bool given_up = false;                 // after the last of them

  [[nodiscard]] Psn end() const { return first + packets; }
  [[nodiscard]] bool is_read() const { return operation == queue::SendOperation::kRead; }
  [[nodiscard]] bool is_atomic() const { return queue::is_atomic(operation); }
  /// No acknowledgement of something later completes it.
  [[nodiscard]] bool needs_own_response() const { return queue::needs_own_response(operation); }
  [[nodiscard]] bool invalidates() const { return operation == queue::SendOperation::kSendInvalidate; }
  [[nodiscard]] bool is_send() const {
    return operation == queue::SendOperation::kSend || operation == queue::SendOperation::kSendImm ||
           invalidates();
  }
  [[nodiscard]] bool has_immediate() const {
    return operation == queue::SendOperation::kSendImm || operation == queue::SendOperation::kWriteImm;
  }
  [[nodiscard]] bool takes_receive() const { return is_send() || has_immediate(); }
  [[nodiscard]] bool failed() const { return refusal.has_value() || given_up; }
};

/// What one end of a connection asked of the other.
struct Requests {
  Psn first;  // of the first packet
  std::vector<Message> messages;
  /// The first operation that this stack does not have; what has its PSN or a later one is not replayed.
  struct Missing {
    size_t frame = 0;
    Psn psn;
    std::string operation;
  };
  std::optional<Missing> missing;

  /// False for what belongs to `missing` or follows it.
  [[nodiscard]] bool replayed(Psn psn) const { return !missing || psn.before(missing->psn); }
  /// The message that a PSN belongs to; nullptr for none.
  [[nodiscard]] const Message* at(Psn psn) const;
  /// Messages that end before `psn`, or with it: the MSN of an answer with that PSN. A READ counts from its
  /// first PSN on.
  [[nodiscard]] uint32_t complete_at(Psn psn) const;
};

/// Throws std::runtime_error when the packets do not tell.
Requests requests_of(const Conversation& conversation, size_t end);

}  // namespace uroce::replay
