#include "qp/recovery/transport_timers.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using wire::AethKind;
using wire::NakCode;
using wire::Operation;

using Responder = QueuePairTest;

TEST_F(Responder, ASendFillsTheReceiveAndIsAcknowledged) {
  bring_up(State::kRtr);
  post_receive(1000, 4000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu, 1));
  receive(Operation::kSendMiddle, 5001, pattern(kMtu, 2));
  EXPECT_TRUE(receive_completions().empty());
  receive(Operation::kSendLast, 5002, pattern(3, 3), true);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(done[0].bytes, 2 * kMtu + 3);
  EXPECT_FALSE(done[0].has_immediate);
  EXPECT_EQ(done[0].remote.value, 0x22u);
  EXPECT_EQ(memory_at(4000, kMtu), pattern(kMtu, 1));
  EXPECT_EQ(memory_at(4000 + kMtu, kMtu), pattern(kMtu, 2));
  EXPECT_EQ(memory_at(4000 + 2 * kMtu, 3), pattern(3, 3));
  const auto frames = pump();
  expect_answer(frames, AethKind::kAck, wire::kNoCredits, 5002);
  EXPECT_EQ(frames[0].aeth().msn, 1u);
}

TEST_F(Responder, ASendIsScatteredOverSegments) {
  bring_up(State::kRtr);
  post_receive_pieces({segment(100, 5), segment(7000, 0), segment(2000, 400)});
  const Bytes data = pattern(300, 6);
  receive(Operation::kSendFirst, 5000, Bytes(data.begin(), data.begin() + kMtu));
  receive(Operation::kSendLast, 5001, Bytes(data.begin() + kMtu, data.end()), true);
  EXPECT_EQ(memory_at(100, 5), Bytes(data.begin(), data.begin() + 5));
  EXPECT_EQ(memory_at(2000, 295), Bytes(data.begin() + 5, data.end()));
  EXPECT_EQ(receive_completions().size(), 1u);
}

TEST_F(Responder, ImmediateAndSolicitedReachTheCompletion) {
  bring_up(State::kRtr);
  post_receive(10);
  wire::Headers headers = from_peer(Operation::kSendOnlyImm, 5000);
  headers.immediate = 0xCAFE;
  headers.bth.solicited = true;
  receive(headers);
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].has_immediate);
  EXPECT_TRUE(done[0].solicited);
  EXPECT_EQ(done[0].immediate, 0xCAFEu);
  EXPECT_EQ(done[0].bytes, 0u);
}

TEST_F(Responder, AWriteLandsSilently) {
  bring_up(State::kRtr);
  const Bytes data = pattern(kMtu + 9, 4);
  receive_write(Operation::kWriteFirst, 5000, 333, kMtu + 9, Bytes(data.begin(), data.begin() + kMtu));
  receive(Operation::kWriteLast, 5001, Bytes(data.begin() + kMtu, data.end()), true);
  EXPECT_EQ(memory_at(333, data.size()), data);
  EXPECT_TRUE(receive_completions().empty());
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5001);
}

TEST_F(Responder, AWriteWithImmediateTakesAReceiveButNotItsMemory) {
  bring_up(State::kRtr);
  post_receive(4, 50'000);
  const Bytes before = memory_at(50'000, 4);
  wire::Headers headers = from_peer(Operation::kWriteOnlyImm, 5000);
  headers.reth = {kIova, keys.rkey, 20};
  headers.immediate = 77;
  receive(headers, pattern(20, 2));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kReceiveWriteImm);
  EXPECT_EQ(done[0].bytes, 20u);
  EXPECT_EQ(done[0].immediate, 77u);
  EXPECT_EQ(memory_at(0, 20), pattern(20, 2));
  EXPECT_EQ(memory_at(50'000, 4), before);
}

TEST_F(Responder, OneAckForABurst) {
  bring_up(State::kRtr);
  for (uint32_t i = 0; i < 10; ++i) receive_write(Operation::kWriteOnly, 5000 + i, i, 1, pattern(1, i));
  const auto frames = pump();
  expect_answer(frames, AethKind::kAck, wire::kNoCredits, 5009);
  EXPECT_EQ(frames[0].aeth().msn, 10u);
}

TEST_F(Responder, NoAckWithoutAckRequest) {
  bring_up(State::kRtr);
  post_receive(10);
  receive(Operation::kSendOnly, 5000, pattern(1));
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(receive_completions().size(), 1u);
}

TEST_F(Responder, AReadIsAnsweredPacketByPacket) {
  bring_up(State::kRtr);
  receive_read(5000, 77, 2 * kMtu + 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseFirst);
  EXPECT_EQ(frames[1].operation(), Operation::kReadResponseMiddle);
  EXPECT_EQ(frames[2].operation(), Operation::kReadResponseLast);
  EXPECT_EQ(frames[0].payload(), memory_at(77, kMtu));
  EXPECT_EQ(frames[1].payload(), memory_at(77 + kMtu, kMtu));
  EXPECT_EQ(frames[2].payload(), memory_at(77 + 2 * kMtu, 1));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(frames[i].psn(), 5000 + i);
  // The next request stands behind all responses.
  receive_write(Operation::kWriteOnly, 5003, 0, 1, pattern(1));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5003);
}

TEST_F(Responder, ALongReadIsAnsweredAsTheBudgetAllows) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 100 * kMtu);
  EXPECT_TRUE(pump_once(8));
  EXPECT_EQ(take_sent().size(), 8u);
  EXPECT_EQ(pump(8).size(), 92u);
}

TEST_F(Responder, AnAckDoesNotOvertakeAReadResponse) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1));
  receive_read(5001, 0, 2 * kMtu);
  receive_write(Operation::kWriteOnly, 5003, 9000, 1, pattern(1));
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 3u);  // the responses acknowledge the first WRITE
  EXPECT_EQ(frames[0].psn(), 5001u);
  EXPECT_EQ(frames[0].aeth().msn, 2u);
  EXPECT_EQ(frames[1].psn(), 5002u);
  EXPECT_EQ(frames[2].operation(), Operation::kAcknowledge);
  EXPECT_EQ(frames[2].psn(), 5003u);
  EXPECT_EQ(frames[2].aeth().msn, 3u);
}

TEST_F(Responder, AReadSeesTheWriteBeforeIt) {
  bring_up(State::kRtr);
  commit_after_receive = false;
  receive_write(Operation::kWriteOnly, 5000, 40, 30, pattern(30, 12));
  receive_read(5001, 40, 30);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseOnly);
  EXPECT_EQ(frames[0].payload(), pattern(30, 12));
}

TEST_F(Responder, ZeroLengthWriteAndReadNeedNoKey) {
  bring_up(State::kRtr);
  wire::Headers headers = from_peer(Operation::kWriteOnly, 5000);
  headers.reth = {0xFFFFFFFFFFFF, {0xBAD00}, 0};
  headers.bth.ack_request = true;
  receive(headers);
  headers.bth.opcode = from_peer(Operation::kReadRequest, 0).bth.opcode;
  headers.bth.psn = Psn(5001);
  receive(headers);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseOnly);
  EXPECT_TRUE(frames[0].payload().empty());
  EXPECT_EQ(queue_pair->state(), State::kRtr);
}

TEST_F(Responder, ThePsnWraps) {
  attributes.rq_psn = Psn(0xFFFFFF);
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 0xFFFFFF, 0, 1, pattern(1));
  receive_write(Operation::kWriteOnly, 0, 1, 1, pattern(1));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 0);
  receive_write(Operation::kWriteOnly, 0xFFFFFF, 0, 1, pattern(1, 5));  // a duplicate
  EXPECT_EQ(memory_at(0, 1), pattern(1));
}

TEST_F(Responder, AGapIsNakedOnceThenSilence) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 5001, 0, 1, pattern(1, 3));
  receive_write(Operation::kWriteOnly, 5002, 0, 1, pattern(1, 3));
  expect_nak(pump(), NakCode::kSequenceError, 5000);
  receive_write(Operation::kWriteOnly, 5003, 0, 1, pattern(1, 3));
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(memory_at(0, 1), pattern(1));
  EXPECT_EQ(counter(Counter::kDropSequence), 3u);
  // The missing one comes; the next gap is NAKed again.
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 3));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5000);
  receive_write(Operation::kWriteOnly, 5005, 0, 1, pattern(1, 3));
  expect_nak(pump(), NakCode::kSequenceError, 5001);
}

TEST_F(Responder, ANakThatHasNotLeftFollowsTheGap) {
  bring_up(State::kRtr);
  // 5001 overtakes 5000 within a burst: 5001 was dropped and is what is missing in the end.
  receive_write(Operation::kWriteOnly, 5001, 0, 1, pattern(1));
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1));
  expect_nak(pump(), NakCode::kSequenceError, 5001);
  receive_write(Operation::kWriteOnly, 5002, 0, 1, pattern(1));
  EXPECT_TRUE(pump().empty());  // that gap was NAKed
}

TEST_F(Responder, ADuplicateWriteIsNotPerformedAndAcknowledgedUpToTheNewest) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 1));
  receive_write(Operation::kWriteOnly, 5001, 1, 1, pattern(1, 2));
  pump();
  fill(0, pattern(1, 9));
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 1));
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5001);
  EXPECT_EQ(memory_at(0, 1), pattern(1, 9));
  EXPECT_EQ(counter(Counter::kDuplicateRequest), 1u);
}

TEST_F(Responder, ADuplicateSendTakesNoSecondReceive) {
  bring_up(State::kRtr);
  post_receive(10);
  post_receive(10);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  EXPECT_EQ(receive_completions().size(), 1u);
  EXPECT_EQ(pump().size(), 1u);
}

TEST_F(Responder, ADuplicateReadIsPerformedAgainInPart) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 4 * kMtu);
  EXPECT_EQ(pump().size(), 4u);
  receive_read(5002, 2 * kMtu, kMtu + 5);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kReadResponseFirst);
  EXPECT_EQ(frames[0].psn(), 5002u);
  EXPECT_EQ(frames[0].payload(), memory_at(2 * kMtu, kMtu));
  EXPECT_EQ(frames[1].operation(), Operation::kReadResponseLast);
  EXPECT_EQ(frames[1].payload().size(), 5u);
}

TEST_F(Responder, TheMsnOfARepeatedAnswerIsNotOlderThanWhatWasSaid) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 2 * kMtu);
  receive_read(5002, 0, 1);
  receive_write(Operation::kWriteOnly, 5003, 0, 1, pattern(1));
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[1].aeth().msn, 1u);
  EXPECT_EQ(frames[2].aeth().msn, 2u);
  EXPECT_EQ(frames[3].aeth().msn, 3u);
  receive_read(5001, kMtu, kMtu);
  const auto again = pump();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].aeth().msn, 3u);
}

TEST_F(Responder, ADuplicateReadOutsideTheOriginalIsDropped) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 2 * kMtu);
  pump();
  receive_read(5001, 0, kMtu);         // another address
  receive_read(5001, kMtu, kMtu + 1);  // longer
  receive_read(4999, 0, kMtu);         // never seen
  wire::Headers headers = from_peer(Operation::kReadRequest, 5000);
  headers.reth = {kIova, read_only_keys.rkey, kMtu};  // another key
  receive(headers);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kDropResources), 4u);
}

TEST_F(Responder, ADuplicateReadOfMemoryThatWasDeregisteredSinceIsDropped) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 2 * kMtu);
  EXPECT_EQ(pump().size(), 2u);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  receive_read(5000, 0, 2 * kMtu);
  EXPECT_TRUE(pump().empty());
  EXPECT_EQ(counter(Counter::kDropResources), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRtr);
  post_receive(10);
  receive(Operation::kSendOnly, 5002, {}, true);
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5002);
}

TEST_F(Responder, AReadAskedForAgainStartsOverInItsPlace) {
  bring_up(State::kRtr);
  receive_read(5000, 0, 4 * kMtu);
  receive_read(5004, 0, kMtu);
  EXPECT_TRUE(pump_once(4));
  EXPECT_EQ(take_sent().size(), 4u);
  receive_read(5001, kMtu, 3 * kMtu);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(frames[i].psn(), 5001 + i);
}

TEST_F(Responder, WithoutReceiveAnRnrNak) {
  bring_up(State::kRtr);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  expect_answer(pump(), AethKind::kRnrNak, 12, 5000);
  // What was under way behind it is dropped without a NAK until the peer comes back.
  receive(Operation::kSendOnly, 5001, pattern(1), true);
  EXPECT_TRUE(pump().empty());
  post_receive(10);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  expect_answer(pump(), AethKind::kAck, wire::kNoCredits, 5000);
  EXPECT_EQ(receive_completions().size(), 1u);
}

TEST_F(Responder, AfterTheRnrTimeAGapIsAGapAgain) {
  bring_up(State::kRtr);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  pump();
  advance(rnr_wait(12));
  receive(Operation::kSendOnly, 5001, pattern(1), true);
  expect_nak(pump(), NakCode::kSequenceError, 5000);
}

TEST_F(Responder, AWriteWithImmediateWaitsForAReceiveAtItsEnd) {
  bring_up(State::kRtr);
  receive_write(Operation::kWriteFirst, 5000, 0, kMtu + 1, pattern(kMtu, 1));
  receive(Operation::kWriteLastImm, 5001, pattern(1, 8), true);
  expect_answer(pump(), AethKind::kRnrNak, 12, 5001);
  EXPECT_NE(memory_at(kMtu, 1), pattern(1, 8));
  post_receive(0);
  receive(Operation::kWriteLastImm, 5001, pattern(1, 8), true);
  EXPECT_EQ(memory_at(kMtu, 1), pattern(1, 8));
  EXPECT_EQ(receive_completions().size(), 1u);
}

TEST_F(Responder, ReceivesMayBePostedInInit) {
  bring_up(State::kInit);
  post_receive(10);
  EXPECT_FALSE(pump_once(8));
  ASSERT_EQ(modify(State::kRtr, kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic |
                                    kMaskMinRnrTimer),
            0);
  receive(Operation::kSendOnly, 5000, pattern(1), true);
  EXPECT_EQ(receive_completions().size(), 1u);
}

}  // namespace
}  // namespace uroce::qp::testing
