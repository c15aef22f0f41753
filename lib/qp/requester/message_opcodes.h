#pragma once

#include <array>
#include <cstddef>

#include "queue/work_request.h"
#include "wire/opcode.h"

namespace uroce::qp {

/// Opcodes of the packets of a message by their place in it (lib/README.md, wire fact 2).
struct MessageOpcodes {
  queue::SendOperation operation;
  wire::Operation middle, first, last, only;
};

inline constexpr auto kMessages = [] {
  using queue::SendOperation;
  using enum wire::Operation;
  return std::to_array<MessageOpcodes>({
      {SendOperation::kSend, kSendMiddle, kSendFirst, kSendLast, kSendOnly},
      {SendOperation::kSendImm, kSendMiddle, kSendFirst, kSendLastImm, kSendOnlyImm},
      {SendOperation::kSendInvalidate, kSendMiddle, kSendFirst, kSendLastInvalidate, kSendOnlyInvalidate},
      {SendOperation::kWrite, kWriteMiddle, kWriteFirst, kWriteLast, kWriteOnly},
      {SendOperation::kWriteImm, kWriteMiddle, kWriteFirst, kWriteLastImm, kWriteOnlyImm},
      {SendOperation::kAtomicWrite, kAtomicWrite, kAtomicWrite, kAtomicWrite, kAtomicWrite},
  });
}();

/// The opcodes by the operation's number, then 1 for a first packet and 2 for a last one.
inline constexpr auto kMessageOpcodes = [] {
  constexpr size_t kOperations = static_cast<size_t>(queue::SendOperation::kBindWindow) + 1;
  std::array<std::array<wire::Operation, 4>, kOperations> opcodes{};
  for (const MessageOpcodes& message : kMessages)
    opcodes[static_cast<size_t>(message.operation)] = {message.middle, message.first, message.last,
                                                       message.only};
  return opcodes;
}();

inline wire::Operation opcode_of(queue::SendOperation operation, bool first, bool last) {
  return kMessageOpcodes[static_cast<size_t>(operation)][unsigned{first} | unsigned{last} << 1];
}

}  // namespace uroce::qp
