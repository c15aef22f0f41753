// What a queue pair says that it has done, and what went wrong.
#include "qp/traffic.h"

#include <gtest/gtest.h>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::Operation;

class TrafficOfRc : public QueuePairTest {};

TEST_F(TrafficOfRc, CountsRequestsOnceTheyAreAnswered) {
  bring_up();
  post(SendOperation::kSend, 2 * kMtu + 10);
  post(SendOperation::kWrite, 7);
  pump();
  EXPECT_EQ(queue_pair->sent().messages, 0u);
  EXPECT_EQ(queue_pair->unanswered(), 4u);
  receive_ack(kOurPsn.value() + 2);
  EXPECT_EQ(queue_pair->sent().messages, 1u);
  EXPECT_EQ(queue_pair->sent().bytes, 2 * kMtu + 10);
  receive_ack(kOurPsn.value() + 3);
  EXPECT_EQ(queue_pair->sent().messages, 2u);
  EXPECT_EQ(queue_pair->sent().bytes, 2 * kMtu + 17);
}

TEST_F(TrafficOfRc, CountsMessagesOfThePeerAtTheirEnd) {
  bring_up();
  receive_write(Operation::kWriteFirst, kPeerPsn.value(), 0, kMtu + 3, pattern(kMtu));
  EXPECT_EQ(queue_pair->received().messages, 0u);
  receive_write(Operation::kWriteLast, kPeerPsn.value() + 1, 0, kMtu + 3, pattern(3));
  post_receive(100);
  receive(Operation::kSendOnly, kPeerPsn.value() + 2, pattern(50));
  EXPECT_EQ(queue_pair->received().messages, 2u);
  EXPECT_EQ(queue_pair->received().bytes, kMtu + 53);
  // Once more, as it was not acknowledged.
  receive(Operation::kSendOnly, kPeerPsn.value() + 2, pattern(50));
  EXPECT_EQ(queue_pair->received().messages, 2u);
}

TEST_F(TrafficOfRc, CountsNaksOfBothEndsAndWhatGoesAgain) {
  bring_up();
  post(SendOperation::kSend, 10);
  post(SendOperation::kSend, 10);
  pump();
  receive_nak(wire::NakCode::kSequenceError, kOurPsn.value());
  pump();
  EXPECT_EQ(queue_pair->incidents().naks_received, 1u);
  EXPECT_GE(queue_pair->incidents().retransmitted, 1u);
  EXPECT_EQ(queue_pair->incidents().retransmitted, counter(Counter::kRetransmittedPackets));
  receive_rnr(1, kOurPsn.value());
  EXPECT_EQ(queue_pair->incidents().rnr_naks_received, 1u);
  receive(Operation::kSendOnly, kPeerPsn.value(), pattern(5));
  pump();
  EXPECT_EQ(queue_pair->incidents().rnr_naks_sent, 1u) << "no receive was posted";
}

TEST_F(TrafficOfRc, CountsTheNakOfAGap) {
  bring_up();
  receive(Operation::kSendOnly, kPeerPsn.value() + 2000, pattern(5));
  pump();
  EXPECT_EQ(queue_pair->incidents().naks_sent, 1u);
}

TEST_F(TrafficOfRc, CountsTimeouts) {
  bring_up();
  post(SendOperation::kSend, 10);
  pump();
  expire();
  EXPECT_EQ(queue_pair->incidents().timeouts, 1u);
}

TEST_F(TrafficOfRc, ShowsTheFirstRoundTripAndThenOneOfSixteen) {
  const auto latencies = std::make_unique<Latencies>();
  turn.latencies = latencies.get();
  bring_up();
  const auto samples = [&] {
    uint64_t sum = 0;
    for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i)
      sum += latencies->of(Latency::kMessageToAck).in_bucket(i);
    return sum;
  };
  for (uint32_t i = 0; i < 33; ++i) {
    post(SendOperation::kSend, 10);
    pump();
    advance(microseconds(5));
    receive_ack(kOurPsn.value() + i);
  }
  EXPECT_EQ(samples(), 3u);
  EXPECT_EQ(latencies->of(Latency::kMessageToAck).sum(), 15'000u);
  EXPECT_EQ(latencies->of(Latency::kReadToResponse).sum(), 0u);
}

class TrafficOfUc : public QueuePairTest {
 protected:
  TrafficOfUc() : QueuePairTest(Type::kUc) {}
};

TEST_F(TrafficOfUc, CountsWhatHasGoneAndWhatHasCome) {
  bring_up();
  post(SendOperation::kWrite, 2 * kMtu);
  pump();
  EXPECT_EQ(queue_pair->sent().messages, 1u);
  EXPECT_EQ(queue_pair->sent().bytes, 2 * kMtu);
  receive_write(Operation::kWriteOnly, kPeerPsn.value(), 0, 9, pattern(9));
  EXPECT_EQ(queue_pair->received().messages, 1u);
  EXPECT_EQ(queue_pair->received().bytes, 9u);
}

}  // namespace
}  // namespace uroce::qp::testing
