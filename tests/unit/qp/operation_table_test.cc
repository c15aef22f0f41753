// The operation table (queue/operation.h) against the opcodes of wire, and each of its rows on a queue pair.
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "qp/attributes/operations.h"
#include "qp/requester/message_opcodes.h"
#include "tests/unit/qp/fast_registration.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletedBy;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::kOperations;
using queue::OperationRow;
using queue::SendOperation;
using wire::Opcode;
using wire::Operation;
using wire::Position;
using wire::Service;

/// Types of queue pairs that send, with the service of what they send.
constexpr std::pair<Type, Service> kSenders[] = {{Type::kRc, Service::kRc},
                                                 {Type::kUc, Service::kUc},
                                                 {Type::kUd, Service::kUd},
                                                 {Type::kXrcSend, Service::kXrc}};

/// One packet of a message that the service divides, or all of it.
void expect_packet(const OperationRow& row, Service service, Position position) {
  const auto place = static_cast<unsigned>(position);
  const Operation operation = opcode_of(row.operation, (place & 1) != 0, (place & 2) != 0);
  const wire::OpcodeRow& packet = wire::opcode_row(Opcode::make(service, operation));
  SCOPED_TRACE(packet.name);
  ASSERT_TRUE(packet.valid);
  EXPECT_FALSE(packet.response);
  const bool divided = row.packets.first != row.packets.only;
  EXPECT_EQ(packet.position, divided ? position : Position::kOnly);
  EXPECT_EQ(packet.payload != wire::PayloadRule::kNone, row.carries_data);
  EXPECT_EQ(packet.payload == wire::PayloadRule::kEightBytes, row.carries_data && row.is_of_a_word);
  EXPECT_EQ(packet.headers.has(wire::Header::kAtomicEth), row.has_operands);
  if ((place & 2) != 0) {
    EXPECT_EQ(packet.consumes_receive, row.consumes_receive);
  }
}

TEST(OperationTable, HasThePacketsOfWire) {
  for (const OperationRow& row : kOperations) {
    SCOPED_TRACE(row.name);
    for (const auto& [type, service] : kSenders) {
      if (is_local(row.operation)) continue;
      const auto only = static_cast<Operation>(row.packets.only);
      ASSERT_EQ(has_operation(type, row.operation), wire::opcode_row(Opcode::make(service, only)).valid);
      if (!has_operation(type, row.operation)) continue;
      expect_packet(row, service, Position::kOnly);
      if (type == Type::kUd) continue;
      for (const Position position : {Position::kFirst, Position::kMiddle, Position::kLast})
        expect_packet(row, service, position);
    }
  }
}

TEST(OperationTable, ReachesEveryRequestOfWire) {
  std::set<uint8_t> reached;
  for (const OperationRow& row : kOperations)
    for (const auto& [type, service] : kSenders) {
      if (is_local(row.operation) || !has_operation(type, row.operation)) continue;
      for (const unsigned place : {0u, 1u, 2u, 3u})
        reached.insert(
            Opcode::make(service, opcode_of(row.operation, (place & 1) != 0, (place & 2) != 0)).value);
    }
  for (unsigned value = 0; value < 256; ++value) {
    const wire::OpcodeRow& row = wire::opcode_row({static_cast<uint8_t>(value)});
    if (row.valid && !row.response && row.family != wire::Family::kCnp) {
      EXPECT_EQ(reached.count(row.opcode.value), 1u) << row.name;
    }
  }
}

TEST(OperationTable, TellsOperationsApart) {
  std::set<std::string_view> names;
  std::map<uint32_t, SendOperation> posted;
  uint32_t flags = 0;
  for (const OperationRow& row : kOperations) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (row.posted_as != OperationRow::kNotPosted) {
      EXPECT_TRUE(posted.emplace(row.posted_as, row.operation).second) << row.name;
    }
    EXPECT_LE(std::popcount(row.create_flag), 1) << row.name;
    EXPECT_EQ(flags & row.create_flag, 0u) << row.name;
    flags |= row.create_flag;
  }
}

/// Each set that is made of the rows, consecutive or not, against the rows themselves.
TEST(OperationTable, MakesSetsOfItsRows) {
  for (const OperationRow& row : kOperations) {
    SCOPED_TRACE(row.name);
    const SendOperation operation = row.operation;
    EXPECT_EQ(is_message(operation), row.completed_by == CompletedBy::kAcknowledgement);
    EXPECT_EQ(needs_own_response(operation), row.completed_by == CompletedBy::kExplicitResponse);
    EXPECT_EQ(is_local(operation), row.completed_by == CompletedBy::kItself);
    EXPECT_EQ(carries_data(operation), row.carries_data);
    EXPECT_EQ(has_result(operation), row.has_result);
    EXPECT_EQ(moves_data(operation), row.carries_data || row.has_result);
    EXPECT_EQ(is_atomic(operation), row.has_operands);
    EXPECT_EQ(is_read(operation), row.has_result && !row.has_operands);
    EXPECT_EQ(is_of_a_word(operation), row.is_of_a_word);
    EXPECT_EQ(consumes_receive(operation), row.consumes_receive);
    EXPECT_EQ(completion_of(operation), row.completion);
    EXPECT_EQ(latency_of(operation), row.latency);
  }
}

class EachOperation : public FastRegistrationTest {
 protected:
  EachOperation() { attributes.timeout = 0; }

  void post_row(const OperationRow& row) {
    if (row.operation == SendOperation::kReadInvalidate) bind(++key_);
    queue::SendRequest& request = post(row.operation, queue::kAtomicBytes);
    if (row.operation == SendOperation::kFlush) {
      sends.set_operation(request, queue::FlushOperation{.global_visibility = true});
      request.segments = 0;
    }
    if (row.has_operands) sends.operands(request) = {};
    if (row.operation == SendOperation::kReadInvalidate) request.invalidate = key(key_);
  }
  void answer(const OperationRow& row, Psn psn) {
    if (row.completed_by == CompletedBy::kAcknowledgement) return receive_ack(psn.value());
    wire::Headers headers = from_peer(
        row.has_operands ? Operation::kAtomicAcknowledge : Operation::kReadResponseOnly, psn.value());
    headers.aeth = wire::Aeth::ack(0);
    receive(headers, is_read(row.operation) ? pattern(queue::kAtomicBytes) : Bytes{});
  }

  uint8_t key_ = 0;
};

TEST_F(EachOperation, GoesAndIsAnsweredAsItsRowSays) {
  bring_up();
  Psn psn = kOurPsn;
  for (const OperationRow& row : kOperations) {
    if (is_local(row.operation)) continue;
    SCOPED_TRACE(row.name);
    post_row(row);
    const auto frames = pump();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].operation(), static_cast<Operation>(row.packets.only));
    EXPECT_EQ(frames[0].payload().size(), row.carries_data ? queue::kAtomicBytes : 0);
    // Only an explicit response completes an operation that has one.
    post(SendOperation::kSend, 1);
    pump();
    receive_ack((psn + 1u).value());
    if (row.completed_by == CompletedBy::kExplicitResponse) {
      EXPECT_TRUE(send_completions().empty());
      answer(row, psn);
      receive_ack((psn + 1u).value());
    }
    expect_completions({{row.completion, CompletionStatus::kSuccess},
                        {CompletionOpcode::kSend, CompletionStatus::kSuccess}});
    psn = psn + 2u;
  }
}

TEST_F(EachOperation, OfItselfEndsAsItsRowSays) {
  bring_up();
  post_register(1);
  post_invalidate(key(1));
  EXPECT_TRUE(pump().empty());
  expect_completions({{queue::completion_of(SendOperation::kRegister), CompletionStatus::kSuccess},
                      {queue::completion_of(SendOperation::kLocalInvalidate), CompletionStatus::kSuccess}});
}

TEST_F(EachOperation, OfAWordRefusesOtherLengths) {
  bring_up();
  for (const OperationRow& row : kOperations) {
    if (!row.is_of_a_word) continue;
    SCOPED_TRACE(row.name);
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
    post(row.operation, queue::kAtomicBytes - 1);
    EXPECT_TRUE(pump().empty());
    expect_failed_send(CompletionStatus::kLocalLengthError);
  }
}

}  // namespace
}  // namespace uroce::qp::testing
