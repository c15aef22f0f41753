#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;
using wire::NakCode;
using wire::Operation;

class Completer : public QueuePairTest {
 protected:
  Completer() { attributes.timeout = 0; }
};

TEST_F(Completer, OneAckCompletesEverythingUpToItsPsn) {
  bring_up();
  post(SendOperation::kSend, kMtu + 1);   // PSN 100, 101
  post(SendOperation::kWriteImm, 7);      // 102
  post(SendOperation::kWrite, 2 * kMtu);  // 103, 104
  pump();
  receive_ack(103);
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kSend);
  EXPECT_EQ(done[0].bytes, kMtu + 1);
  EXPECT_EQ(done[0].local.value, 0x11u);
  EXPECT_EQ(done[1].opcode, CompletionOpcode::kWrite);
  receive_ack(104);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(Completer, AnAckInTheMiddleOfAMessageLeavesTheRestOfIt) {
  bring_up();
  for (int i = 0; i < 3; ++i) post(SendOperation::kWrite, 10 * kMtu);
  ASSERT_EQ(pump().size(), 30u);
  receive_ack(100 + 3);
  EXPECT_EQ(send_completions().size(), 0u);
  receive_ack(100 + 15);
  EXPECT_EQ(send_completions().size(), 1u);
  receive_ack(100 + 19);
  EXPECT_EQ(send_completions().size(), 1u);
  receive_ack(100 + 28);
  EXPECT_EQ(send_completions().size(), 0u);
  receive_ack(100 + 29);
  EXPECT_EQ(send_completions().size(), 1u);
  EXPECT_EQ(sends.outstanding(), 0u);
}

TEST_F(Completer, StaleAndImpossibleAcksAreCounted) {
  bring_up();
  receive_ack(100);  // nothing was sent
  EXPECT_EQ(counter(Counter::kDropBadAck), 1u);
  post(SendOperation::kSend, 1);
  pump();
  receive_ack(101);
  EXPECT_EQ(counter(Counter::kDropBadAck), 2u);
  receive_ack(99);
  EXPECT_EQ(counter(Counter::kDropStaleAck), 1u);
  EXPECT_TRUE(send_completions().empty());
  receive_ack(100);
  receive_ack(100);
  EXPECT_EQ(counter(Counter::kDropStaleAck), 2u);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(Completer, UndefinedSyndromesAreDropped) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  for (const wire::Aeth& aeth :
       {wire::Aeth{wire::AethKind::kReserved, 3, 0}, wire::Aeth{wire::AethKind::kNak, 4, 0},
        wire::Aeth{wire::AethKind::kNak, 31, 0}}) {
    wire::Headers headers = from_peer(Operation::kAcknowledge, 100);
    headers.aeth = aeth;
    receive(headers);
  }
  EXPECT_EQ(counter(Counter::kDropBadAck), 3u);
  EXPECT_EQ(sends.outstanding(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

TEST_F(Completer, AnAtomicAcknowledgeOfASendIsDropped) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive(Operation::kAtomicAcknowledge, 100);
  EXPECT_EQ(counter(Counter::kDropBadAck), 1u);
  EXPECT_EQ(sends.outstanding(), 1u);
}

TEST_F(Completer, ARefusalOfAPacketThatWasNeverSentIsOnlyAnAck) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_nak(NakCode::kRemoteAccess, 101);
  receive_rnr(1, 101);
  EXPECT_EQ(send_completions().size(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
  EXPECT_EQ(queue_pair->deadline(), kNever);
  receive_nak(NakCode::kRemoteAccess, 102);
  EXPECT_EQ(counter(Counter::kDropBadAck), 1u);
}

struct NakCase {
  NakCode code;
  CompletionStatus status;
  Counter counter;
};

class FatalNak : public Completer, public ::testing::WithParamInterface<NakCase> {};

TEST_P(FatalNak, CompletesTheRequestItNamesAndFlushesTheRest) {
  bring_up();
  for (int i = 0; i < 3; ++i) post(SendOperation::kWrite, 1);
  post_receive(100);
  pump();
  receive_nak(GetParam().code, 101);  // acknowledges 100
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[1].status, GetParam().status);
  EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
  EXPECT_EQ(queue_pair->state(), State::kErr);
  const auto receives_done = receive_completions();
  ASSERT_EQ(receives_done.size(), 1u);
  EXPECT_EQ(receives_done[0].status, CompletionStatus::kFlushed);
  EXPECT_EQ(counter(GetParam().counter), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Codes, FatalNak,
    ::testing::Values(NakCase{NakCode::kInvalidRequest, CompletionStatus::kRemoteInvalidRequest,
                              Counter::kInvalidRequestNakReceived},
                      NakCase{NakCode::kRemoteAccess, CompletionStatus::kRemoteAccessError,
                              Counter::kAccessNakReceived},
                      NakCase{NakCode::kRemoteOperational, CompletionStatus::kRemoteOperationError,
                              Counter::kOperationalNakReceived}));

TEST_F(Completer, ReadResponsesAreScatteredAndTheLastCompletes) {
  bring_up();
  queue::SendRequest& request = post(SendOperation::kRead, 2 * kMtu + 10);
  request.segments = 3;
  sends.segments(request)[0] = segment(100, 300);
  sends.segments(request)[1] = segment(2000, 1);
  sends.segments(request)[2] = segment(3000, 2 * kMtu + 10 - 301);
  pump();
  const Bytes data = pattern(2 * kMtu + 10, 9);
  const auto part = [&data](size_t from, size_t to) {
    return Bytes(data.begin() + static_cast<ptrdiff_t>(from), data.begin() + static_cast<ptrdiff_t>(to));
  };
  receive(Operation::kReadResponseFirst, 100, part(0, kMtu));
  receive(Operation::kReadResponseMiddle, 101, part(kMtu, 2 * kMtu));
  EXPECT_TRUE(send_completions().empty());
  receive(Operation::kReadResponseLast, 102, part(2 * kMtu, 2 * kMtu + 10));
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kRead);
  EXPECT_EQ(done[0].bytes, 2 * kMtu + 10);
  EXPECT_EQ(memory_at(100, 300), part(0, 300));
  EXPECT_EQ(memory_at(2000, 1), part(300, 301));
  EXPECT_EQ(memory_at(3000, data.size() - 301), part(301, data.size()));
}

TEST_F(Completer, AReadResponseAcknowledgesWhatWasBeforeTheRead) {
  bring_up();
  post(SendOperation::kSend, 1);
  post(SendOperation::kRead, 1);
  pump();
  receive(Operation::kReadResponseOnly, 101, pattern(1));
  EXPECT_EQ(send_completions().size(), 2u);
}

TEST_F(Completer, AnAckBeyondAnUnansweredReadIsAnImpliedNak) {
  bring_up();
  post(SendOperation::kSend, 1);         // 100
  post(SendOperation::kRead, 2 * kMtu);  // 101, 102
  post(SendOperation::kSend, 1);         // 103
  pump();
  receive_ack(103);
  EXPECT_EQ(send_completions().size(), 1u);  // the SEND before the READ
  EXPECT_EQ(counter(Counter::kImpliedNak), 1u);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadRequest);
  EXPECT_EQ(frames[0].psn(), 101u);
  receive_ack(103);  // an echo does not start it over
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kImpliedNak), 1u);
}

TEST_F(Completer, ALostReadResponseIsAskedForAgainFromTheMiddle) {
  bring_up();
  post(SendOperation::kRead, 4 * kMtu + 3);
  pump();
  receive(Operation::kReadResponseFirst, 100, pattern(kMtu, 0));
  receive(Operation::kReadResponseMiddle, 102, pattern(kMtu, 2));  // 101 is lost
  auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 101u);
  EXPECT_EQ(frames[0].reth().address, kRemote + kMtu);
  EXPECT_EQ(frames[0].reth().length, 3 * kMtu + 3);
  receive(Operation::kReadResponseMiddle, 103, pattern(kMtu, 3));  // still from the first answer
  EXPECT_TRUE(pump().empty());
  receive(Operation::kReadResponseFirst, 101, pattern(kMtu, 1));
  receive(Operation::kReadResponseMiddle, 102, pattern(kMtu, 2));
  receive(Operation::kReadResponseMiddle, 103, pattern(kMtu, 3));
  receive(Operation::kReadResponseLast, 104, pattern(3, 4));
  EXPECT_EQ(send_completions().size(), 1u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(memory_at(i * kMtu, kMtu), pattern(kMtu, i));
  EXPECT_EQ(memory_at(4 * kMtu, 3), pattern(3, 4));
}

TEST_F(Completer, ADuplicateReadResponseIsDropped) {
  bring_up();
  post(SendOperation::kRead, 2 * kMtu);
  pump();
  receive(Operation::kReadResponseFirst, 100, pattern(kMtu, 1));
  receive(Operation::kReadResponseFirst, 100, pattern(kMtu, 2));
  EXPECT_EQ(memory_at(0, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(counter(Counter::kDropStaleAck), 1u);
}

TEST_F(Completer, AReadResponseOfTheWrongLengthIsALocalLengthError) {
  bring_up();
  const Bytes before = memory_at(0, 2 * kMtu);
  post(SendOperation::kRead, kMtu);
  pump();
  receive(Operation::kReadResponseOnly, 100, pattern(kMtu - 1, 8));
  expect_failed_send(CompletionStatus::kLocalLengthError);
  EXPECT_EQ(memory_at(0, 2 * kMtu), before);
}

TEST_F(Completer, AReadResponseToASendIsDropped) {
  bring_up();
  post(SendOperation::kSend, 8);
  pump();
  receive(Operation::kReadResponseOnly, 100, pattern(8));
  EXPECT_EQ(counter(Counter::kDropBadAck), 1u);
  EXPECT_EQ(sends.outstanding(), 1u);
}

TEST_F(Completer, AReadIntoARegionThatWentAwayIsALocalProtectionError) {
  bring_up();
  post(SendOperation::kRead, 8);
  pump();
  const Bytes before = memory_at(0, 8);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  receive(Operation::kReadResponseOnly, 100, pattern(8, 4));
  expect_failed_send(CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(memory_at(0, 8), before);
}

}  // namespace
}  // namespace uroce::qp::testing
