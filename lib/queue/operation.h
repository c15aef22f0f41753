#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counters/latencies.h"

// Decision: what the stack has to know of an operation is one row of kOperations, and every set and table of
// operations is computed from the rows. So a new operation is added in one place. Cost: sets whose members
// are not consecutive take an instruction more than a comparison; tests/unit/qp checks opcodes against wire.

namespace uroce::queue {

/// What a send work request asks for, in the order of kOperations.
enum class SendOperation : uint8_t {
  kSend,
  kSendImm,
  kSendInvalidate,  // and the peer's region `invalidate`
  kWrite,
  kWriteImm,
  kAtomicWrite,  // of 8 bytes, which are stored at once
  kFlush,        // `length` bytes at the address, as FlushOperation says
  kRead,
  kReadInvalidate,  // and then our region `invalidate`
  kCompareSwap,     // with AtomicOperands, and a list of 8 bytes in all for what was there before
  kFetchAdd,
  kLocalInvalidate,  // our region `invalidate`
  kRegister,         // as what lies behind the request says
  kBindWindow,       // likewise
};

/// Values of `enum ibv_wc_opcode`; the verbs face asserts that they agree.
enum class CompletionOpcode : uint32_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 1u << 7,
  kReceiveWriteImm = kReceive + 1,
  kRegister = kReceive + 7,  // IBV_WC_DRIVER1
};

constexpr bool is_receive(CompletionOpcode opcode) {
  return opcode == CompletionOpcode::kReceive || opcode == CompletionOpcode::kReceiveWriteImm;
}

/// Services whose queue pairs have an operation.
struct OperationServices {
  bool rc = true;
  bool xrc = true;
  bool uc = true;
  bool ud = true;
};

/// When a request is complete.
enum class CompletedBy : uint8_t {
  kAcknowledgement,   // of its last packet or of a later one
  kExplicitResponse,  // the peer keeps what it answered, and allows for so many at a time (max_rd_atomic)
  kItself,            // a local operation, which sends nothing
};

/// Numbers of wire::Operation for the packets of a request by their place in it.
struct PacketOpcodes {
  uint8_t middle = 0, first = 0, last = 0, only = 0;

  static constexpr PacketOpcodes always(uint8_t opcode) { return {opcode, opcode, opcode, opcode}; }
};

struct OperationRow {
  static constexpr uint8_t kNotPosted = UINT8_MAX;

  SendOperation operation;
  std::string_view name;  // as packet scripts write it
  OperationServices services = {};
  CompletedBy completed_by = CompletedBy::kAcknowledgement;
  PacketOpcodes packets = {};
  bool carries_data = false;      // its packets hold the bytes of its list, or inline bytes
  bool has_result = false;        // responses write to its list
  bool has_operands = false;      // AtomicOperands lie behind it
  bool is_of_a_word = false;      // it moves 8 bytes, no more and no fewer
  bool consumes_receive = false;  // of the peer
  CompletionOpcode completion = CompletionOpcode::kSend;
  Latency latency = Latency::kSendToAck;  // what its round trip is counted as
  uint8_t posted_as = kNotPosted;         // `enum ibv_wr_opcode`, if ibv_post_send needs no more than a list
  uint32_t create_flag = 0;               // of `enum ibv_qp_create_send_ops_flags`
};

inline constexpr OperationServices kConnectedServices{.ud = false};
inline constexpr OperationServices kReliableServices{.uc = false, .ud = false};
inline constexpr OperationServices kRcAlone{.xrc = false, .uc = false, .ud = false};

inline constexpr auto kOperations = std::to_array<OperationRow>({
    {.operation = SendOperation::kSend,
     .name = "SEND",
     .packets = {.middle = 0x01, .first = 0x00, .last = 0x02, .only = 0x04},
     .carries_data = true,
     .consumes_receive = true,
     .posted_as = 2,
     .create_flag = 1 << 2},
    {.operation = SendOperation::kSendImm,
     .name = "SEND_IMM",
     .packets = {.middle = 0x01, .first = 0x00, .last = 0x03, .only = 0x05},
     .carries_data = true,
     .consumes_receive = true,
     .posted_as = 3,
     .create_flag = 1 << 3},
    {.operation = SendOperation::kSendInvalidate,
     .name = "SEND_INVALIDATE",
     .services = kReliableServices,
     .packets = {.middle = 0x01, .first = 0x00, .last = 0x16, .only = 0x17},
     .carries_data = true,
     .consumes_receive = true,
     .posted_as = 9,
     .create_flag = 1 << 9},
    {.operation = SendOperation::kWrite,
     .name = "WRITE",
     .services = kConnectedServices,
     .packets = {.middle = 0x07, .first = 0x06, .last = 0x08, .only = 0x0A},
     .carries_data = true,
     .completion = CompletionOpcode::kWrite,
     .latency = Latency::kWriteToAck,
     .posted_as = 0,
     .create_flag = 1 << 0},
    {.operation = SendOperation::kWriteImm,
     .name = "WRITE_IMM",
     .services = kConnectedServices,
     .packets = {.middle = 0x07, .first = 0x06, .last = 0x09, .only = 0x0B},
     .carries_data = true,
     .consumes_receive = true,
     .completion = CompletionOpcode::kWrite,
     .latency = Latency::kWriteToAck,
     .posted_as = 1,
     .create_flag = 1 << 1},
    {.operation = SendOperation::kAtomicWrite,
     .name = "ATOMIC_WRITE",
     .services = kRcAlone,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x1D),
     .carries_data = true,
     .is_of_a_word = true,
     .completion = CompletionOpcode::kAtomicWrite,
     .latency = Latency::kAtomicToResponse,
     .posted_as = 15,
     .create_flag = 1 << 12},
    {.operation = SendOperation::kFlush,
     .name = "FLUSH",
     .services = kRcAlone,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x1C),
     .completion = CompletionOpcode::kFlush,
     .latency = Latency::kFlushToResponse},
    {.operation = SendOperation::kRead,
     .name = "READ",
     .services = kReliableServices,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x0C),
     .has_result = true,
     .completion = CompletionOpcode::kRead,
     .latency = Latency::kReadToResponse,
     .posted_as = 4,
     .create_flag = 1 << 4},
    {.operation = SendOperation::kReadInvalidate,
     .name = "READ_INVALIDATE",
     .services = kReliableServices,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x0C),
     .has_result = true,
     .completion = CompletionOpcode::kRead,
     .latency = Latency::kReadToResponse},
    {.operation = SendOperation::kCompareSwap,
     .name = "COMPARE_SWAP",
     .services = kReliableServices,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x13),
     .has_result = true,
     .has_operands = true,
     .is_of_a_word = true,
     .completion = CompletionOpcode::kCompareSwap,
     .latency = Latency::kAtomicToResponse,
     .posted_as = 5,
     .create_flag = 1 << 5},
    {.operation = SendOperation::kFetchAdd,
     .name = "FETCH_ADD",
     .services = kReliableServices,
     .completed_by = CompletedBy::kExplicitResponse,
     .packets = PacketOpcodes::always(0x14),
     .has_result = true,
     .has_operands = true,
     .is_of_a_word = true,
     .completion = CompletionOpcode::kFetchAdd,
     .latency = Latency::kAtomicToResponse,
     .posted_as = 6,
     .create_flag = 1 << 6},
    {.operation = SendOperation::kLocalInvalidate,
     .name = "LOCAL_INVALIDATE",
     .services = kConnectedServices,
     .completed_by = CompletedBy::kItself,
     .completion = CompletionOpcode::kLocalInvalidate,
     .posted_as = 7,
     .create_flag = 1 << 7},
    {.operation = SendOperation::kRegister,
     .name = "REGISTER",
     .services = kConnectedServices,
     .completed_by = CompletedBy::kItself,
     .completion = CompletionOpcode::kRegister},
    {.operation = SendOperation::kBindWindow,
     .name = "BIND_WINDOW",
     .services = kConnectedServices,
     .completed_by = CompletedBy::kItself,
     .completion = CompletionOpcode::kBindWindow,
     .create_flag = 1 << 8},
});

/// What `of` says of each row, by the operation's number.
template <typename Of>
constexpr auto column(Of of) {
  std::array<decltype(of(kOperations[0])), kOperations.size()> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = of(kOperations[i]);
  return values;
}

/// The operations of whose rows `has` is true, as bits by their numbers.
template <typename Has>
constexpr uint32_t set_of(Has has) {
  static_assert(kOperations.size() <= 32);
  uint32_t set = 0;
  for (size_t i = 0; i < kOperations.size(); ++i)
    if (has(kOperations[i])) set |= 1u << i;
  return set;
}

/// Whether the operation is in the set. One comparison where the members are consecutive.
template <uint32_t kSet>
constexpr bool is_in(SendOperation operation) {
  constexpr unsigned kFirst = std::countr_zero(kSet);
  constexpr unsigned kMembers = std::popcount(kSet);
  const auto number = static_cast<unsigned>(operation);
  if constexpr (kSet >> kFirst != (1u << kMembers) - 1)
    return (kSet >> number & 1) != 0;
  else if constexpr (kFirst + kMembers == kOperations.size())
    return number >= kFirst;
  else
    return number - kFirst < kMembers;
}

static_assert([] {
  for (size_t i = 0; i < kOperations.size(); ++i)
    if (kOperations[i].operation != static_cast<SendOperation>(i)) return false;
  return true;
}());

constexpr const OperationRow& row_of(SendOperation operation) {
  return kOperations[static_cast<size_t>(operation)];
}

/// SENDs and WRITEs.
constexpr bool is_message(SendOperation operation) {
  return is_in<set_of(
      [](const OperationRow& row) { return row.completed_by == CompletedBy::kAcknowledgement; })>(operation);
}
/// Only an answer of its own completes it, not the acknowledgement of what came later.
constexpr bool needs_own_response(SendOperation operation) {
  return is_in<set_of(
      [](const OperationRow& row) { return row.completed_by == CompletedBy::kExplicitResponse; })>(operation);
}
constexpr bool is_local(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.completed_by == CompletedBy::kItself; })>(
      operation);
}
constexpr bool carries_data(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.carries_data; })>(operation);
}
/// Its list is written to.
constexpr bool has_result(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.has_result; })>(operation);
}
/// Either way; a request that moves none is one packet, whatever its length says.
constexpr bool moves_data(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.carries_data || row.has_result; })>(operation);
}
constexpr bool is_atomic(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.has_operands; })>(operation);
}
constexpr bool is_read(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.has_result && !row.has_operands; })>(
      operation);
}
constexpr bool is_of_a_word(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.is_of_a_word; })>(operation);
}
constexpr bool consumes_receive(SendOperation operation) {
  return is_in<set_of([](const OperationRow& row) { return row.consumes_receive; })>(operation);
}

constexpr CompletionOpcode completion_of(SendOperation operation) {
  constexpr auto kColumn = column([](const OperationRow& row) { return row.completion; });
  return kColumn[static_cast<size_t>(operation)];
}
constexpr Latency latency_of(SendOperation operation) {
  constexpr auto kColumn = column([](const OperationRow& row) { return row.latency; });
  return kColumn[static_cast<size_t>(operation)];
}

}  // namespace uroce::queue
