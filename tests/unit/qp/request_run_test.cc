// Requests that are alike go out by a way of their own. Here all packets are compared with what is said of
// them by a model that knows no runs, with memory as it was posted.
#include "base/values/random.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class RequestRun : public QueuePairTest {
 protected:
  explicit RequestRun(Type service = Type::kRc) : QueuePairTest(service) { attributes.timeout = 0; }

  /// A request as it was posted, and the packet that it becomes.
  struct Expected {
    Operation operation;
    bool solicited;
    bool signaled;
    Bytes payload;
    uint64_t remote;
  };

  /// Of one packet. Few kinds, so that many in a row are alike.
  void post_some(Random& random) {
    const auto operation = random.chance(1, 2) ? SendOperation::kSend : SendOperation::kWrite;
    const auto length = static_cast<uint32_t>(1 + random.below(2) * 60 + random.below(2) * (kMtu - 61));
    const bool inlined = random.chance(1, 4);
    const bool in_pieces = !inlined && random.chance(1, 8) && length > 1;
    const bool solicited = random.chance(1, 8);
    for (uint64_t left = 1 + random.below(40); left > 0; --left) {
      const uint64_t offset = random.below(1000);
      queue::SendRequest& request = post(operation, length, offset);
      request.signaled = random.chance(1, 4);
      request.solicited = solicited;
      request.remote_address = kRemote + random.below(1 << 20);
      Bytes payload = memory_at(offset, length);
      if (inlined) {
        payload = pattern(length, static_cast<uint32_t>(random.below(100)));
        request.inline_data = true;
        request.segments = 0;
        std::ranges::copy(payload, sends.inline_bytes(request));
      } else if (in_pieces) {
        sends.segments(request)[0] = segment(offset, 1);
        sends.segments(request)[1] = segment(offset + 1, length - 1);
        request.segments = 2;
      }
      const bool writes = operation == SendOperation::kWrite;
      expected.push_back({writes ? Operation::kWriteOnly : Operation::kSendOnly, solicited, request.signaled,
                          payload, request.remote_address});
    }
  }
  /// What went out is what is expected next. `posted`: so many were when it went.
  void compare(const std::vector<Sent>& frames, size_t posted) {
    for (const Sent& frame : frames) {
      ASSERT_LT(sent, posted);
      const Expected& request = expected[sent];
      const uint32_t psn = Psn(kOurPsn + static_cast<uint32_t>(sent)).value();
      SCOPED_TRACE(::testing::Message() << "request " << sent);
      EXPECT_EQ(frame.psn(), psn);
      EXPECT_EQ(frame.operation(), request.operation);
      EXPECT_EQ(frame.packet.headers.bth.solicited, request.solicited);
      EXPECT_EQ(frame.packet.headers.bth.destination, attributes.destination);
      EXPECT_EQ(frame.payload(), request.payload);
      if (request.operation == Operation::kWriteOnly) {
        EXPECT_EQ(frame.reth().address, request.remote);
        EXPECT_EQ(frame.reth().rkey.value, kRkey);
        EXPECT_EQ(frame.reth().length, request.payload.size());
      }
      EXPECT_EQ(frame.ack_request(),
                type == Type::kRc && (psn % 16 == 15 || request.signaled || sent + 1 == posted));
      ++sent;
    }
  }

  std::vector<Expected> expected;
  size_t sent = 0;
};

class UnreliableRun : public RequestRun {
 protected:
  UnreliableRun() : RequestRun(Type::kUc) {}
};

TEST_F(RequestRun, EachPacketIsWhatItWouldBeAlone) {
  bring_up();
  fill(0, pattern(2000, 9));
  Random random(25);
  size_t acknowledged = 0;
  size_t completed = 0;
  for (int round = 0; round < 400; ++round) {
    if (expected.size() - acknowledged < kDepth - 80) post_some(random);
    // Twice, so that the second begins in the middle of a run.
    for (int i = 0; i < 2; ++i) {
      (void)pump_once(static_cast<uint32_t>(2 + random.below(30)));
      compare(take_sent(), expected.size());
    }
    if (sent > acknowledged && random.chance(2, 3)) {
      acknowledged += 1 + random.below(sent - acknowledged);
      receive_ack(Psn(kOurPsn + static_cast<uint32_t>(acknowledged - 1)).value());
      EXPECT_EQ(sends.retired(), acknowledged);
      completed += send_completions().size();
    }
  }
  compare(pump(), expected.size());
  EXPECT_GT(sent, 1000u);
  uint64_t signaled = 0;
  for (size_t i = 0; i < acknowledged; ++i) signaled += expected[i].signaled ? 1 : 0;
  EXPECT_EQ(completed, signaled);
}

TEST_F(UnreliableRun, NoPacketAsksForAnAck) {
  bring_up();
  fill(0, pattern(2000, 9));
  Random random(26);
  for (int round = 0; round < 50; ++round) {
    post_some(random);
    compare(pump(), expected.size());
  }
  EXPECT_EQ(sent, expected.size());
}

TEST_F(RequestRun, OneThatMayNotBeReadStopsItWhereItIs) {
  bring_up();
  for (int i = 0; i < 4; ++i) post(SendOperation::kSend, 64);
  ASSERT_EQ(pump().size(), 4u);
  for (int i = 0; i < 2; ++i) post(SendOperation::kSend, 64);
  queue::SendRequest& bad = post(SendOperation::kSend, 64);
  sends.segments(bad)[0].lkey.value ^= 1;
  post(SendOperation::kSend, 64);
  EXPECT_EQ(pump().size(), 2u);
  receive_ack(kOurPsn.value() + 5);
  pump();
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 8u);
  EXPECT_EQ(done[5].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[6].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[6].wr_id, bad.wr_id);
  EXPECT_EQ(done[7].status, CompletionStatus::kFlushed);
}

TEST_F(RequestRun, AFenceAndAReadBetweenThemAreSeen) {
  bring_up();
  for (int i = 0; i < 4; ++i) post(SendOperation::kWrite, 64);
  post(SendOperation::kRead, 64);
  post(SendOperation::kWrite, 64);
  post(SendOperation::kWrite, 64).fence = true;
  post(SendOperation::kWrite, 64);
  EXPECT_EQ(pump().size(), 6u);
  EXPECT_EQ(pump().size(), 0u);
}

TEST_F(RequestRun, ItEndsWithTheReceivesThatThePeerHas) {
  bring_up();
  post(SendOperation::kSend, 64);
  ASSERT_EQ(pump().size(), 1u);
  wire::Headers ack = from_peer(Operation::kAcknowledge, kOurPsn.value());
  ack.aeth = wire::Aeth::ack(1, 4);  // code 4: four more
  receive(ack);
  for (int i = 0; i < 10; ++i) post(SendOperation::kSend, 64).signaled = false;
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].ack_request(), i == 3) << i;
}

TEST_F(RequestRun, WhatWasSentGoesAgainAsItWas) {
  bring_up();
  fill(0, pattern(2000, 9));
  for (uint64_t i = 0; i < 12; ++i) post(SendOperation::kSend, 64, i);
  const auto first = pump();
  ASSERT_EQ(first.size(), 12u);
  receive_nak(wire::NakCode::kSequenceError, kOurPsn.value() + 3);
  const auto again = pump();
  ASSERT_FALSE(again.empty());
  for (const Sent& frame : again) {
    const size_t index = frame.psn() - kOurPsn.value();
    ASSERT_GE(index, 3u);
    ASSERT_LT(index, 12u);
    EXPECT_EQ(frame.payload(), first[index].payload());
  }
}

}  // namespace
}  // namespace uroce::qp::testing
