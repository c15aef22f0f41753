// What a queue pair says that it has done, and what went wrong.
#include "qp/attributes/traffic.h"

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

/// Round trips that are shown.
class RoundTripsOfRc : public TrafficOfRc {
 protected:
  RoundTripsOfRc() {
    turn.latencies = latencies.get();
    bring_up();
  }
  [[nodiscard]] uint64_t samples(Latency latency) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) sum += latencies->of(latency).in_bucket(i);
    return sum;
  }
  /// So many, one after the other, each of 5 us.
  void make(uint32_t count, SendOperation operation) {
    for (uint32_t i = 0; i < count; ++i) {
      post(operation, 10);
      pump();
      advance(microseconds(5));
      receive_ack(kOurPsn.value() + psn++);
    }
  }

  const std::unique_ptr<Latencies> latencies = std::make_unique<Latencies>();
  uint32_t psn = 0;
};

TEST_F(RoundTripsOfRc, TheFirstAndThenOneOfSixteenAreShown) {
  make(33, SendOperation::kSend);
  EXPECT_EQ(samples(Latency::kSendToAck), 3u);
  EXPECT_EQ(latencies->of(Latency::kSendToAck).sum(), 15'000u);
  EXPECT_EQ(samples(Latency::kWriteToAck) + samples(Latency::kReadToResponse), 0u);
}

TEST_F(RoundTripsOfRc, AreThoseOfTheOperationThatWasTimed) {
  make(16, SendOperation::kSend);
  make(15, SendOperation::kWrite);
  make(2, SendOperation::kSend);
  EXPECT_EQ(samples(Latency::kSendToAck), 2u);
  EXPECT_EQ(samples(Latency::kWriteToAck), 1u);
}

TEST_F(RoundTripsOfRc, TheOperationIsThatOfTheNewestPacketEvenIfItsRequestHasMore) {
  post(SendOperation::kSend, 10);
  post(SendOperation::kWrite, 300 * kMtu);  // more than the window has room for
  pump();
  ASSERT_LT(queue_pair->unanswered(), 301u);
  advance(microseconds(5));
  receive_ack(kOurPsn.value() + queue_pair->unanswered() - 1);
  EXPECT_EQ(samples(Latency::kWriteToAck), 1u);
  EXPECT_EQ(samples(Latency::kSendToAck), 0u);
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
