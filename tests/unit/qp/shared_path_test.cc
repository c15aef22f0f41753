// The window of a queue pair beside others that send short messages.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;

constexpr Duration kQuick = microseconds(10);

class SharedPath : public QueuePairTest {
 protected:
  SharedPath() { attributes.timeout = 0; }

  /// A message of so many packets goes out and is answered after that time; how many packets were under way
  /// at once.
  uint32_t round(uint32_t packets, Duration round_trip) {
    post(SendOperation::kWrite, packets * kMtu);
    next_ += packets;
    uint32_t most = 0;
    do {
      pump();
      const uint32_t under_way = queue_pair->unanswered();
      most = std::max(most, under_way);
      advance(round_trip);
      answered_ += under_way;
      receive_ack(answered_ - 1);
    } while (answered_ != next_);
    return most;
  }

  uint32_t next_ = kOurPsn.value();      // PSN of the next message
  uint32_t answered_ = kOurPsn.value();  // all before it
};

TEST_F(SharedPath, AloneTheWindowIsWhole) {
  bring_up();
  round(1, kQuick);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(round(300, microseconds(100)), 256u);
}

TEST_F(SharedPath, RoundTripsThatGrowMakeItSmallerAndShortOnesLarger) {
  bring_up();
  turn.shared = true;
  round(1, kQuick);
  EXPECT_EQ(round(300, microseconds(100)), 256u);
  for (int i = 0; i < 16; ++i) round(300, microseconds(100));
  EXPECT_EQ(round(300, microseconds(100)), 8u);
  for (int i = 0; i < 64; ++i) round(300, kQuick);
  EXPECT_EQ(round(300, kQuick), 256u);
}

TEST_F(SharedPath, ASingleLateAnswerIsNoQueue) {
  bring_up();
  turn.shared = true;
  round(1, kQuick);
  for (int i = 0; i < 16; ++i) {
    round(250, milliseconds(1));
    for (int quick = 0; quick < 3; ++quick) EXPECT_EQ(round(250, kQuick), 250u);
  }
}

TEST_F(SharedPath, NobodyElseIsThereAnyMore) {
  bring_up();
  turn.shared = true;
  round(1, kQuick);
  for (int i = 0; i < 16; ++i) round(300, microseconds(100));
  turn.shared = false;
  advance(milliseconds(2));
  for (int i = 0; i < 16; ++i) round(300, microseconds(100));
  EXPECT_EQ(round(300, microseconds(100)), 256u);
}

/// What had gone before the window became small may not have asked for its ACK; what goes in it does.
TEST_F(SharedPath, EachPacketOfASmallWindowAsks) {
  bring_up();
  turn.shared = true;
  round(1, kQuick);
  for (int i = 0; i < 7; ++i) round(9, milliseconds(1));
  post(SendOperation::kWrite, 100 * kMtu);
  ASSERT_TRUE(pump_once(10));
  for (const Sent& frame : take_sent()) EXPECT_FALSE(frame.ack_request());
  const std::vector<Sent> rest = pump();
  EXPECT_EQ(queue_pair->unanswered(), 16u);
  ASSERT_EQ(rest.size(), 6u);
  for (const Sent& frame : rest) EXPECT_TRUE(frame.ack_request());
  EXPECT_EQ(counter(Counter::kRetransmittedPackets), 0u);
}

}  // namespace
}  // namespace uroce::qp::testing
