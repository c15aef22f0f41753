// SQD, and what a queue pair tells beside completions.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using Events = std::vector<Event>;

class Drain : public QueuePairTest {
 protected:
  Drain() { attributes.notify_drained = true; }
  int drain() { return modify(State::kSqd, kMaskEnSqdAsyncNotify); }
  [[nodiscard]] bool draining() { return queue_pair->attributes().draining; }
};

TEST_F(Drain, ToldWhenAllThatWasBegunIsComplete) {
  bring_up();
  post(SendOperation::kWrite, 20 * kMtu);
  post(SendOperation::kSend, 1);
  EXPECT_TRUE(pump_once(4));
  ASSERT_EQ(drain(), 0);
  pump();
  receive_ack(118);
  EXPECT_TRUE(draining());
  EXPECT_TRUE(events.list.empty());
  receive_ack(119);
  EXPECT_FALSE(draining());
  EXPECT_EQ(events.list, Events{Event::kSendQueueDrained});
  receive_ack(119);
  pump();
  EXPECT_EQ(events.list.size(), 1u) << "once";
  ASSERT_EQ(modify(State::kRts), 0);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 120u);
}

TEST_F(Drain, AnErrorEndsIt) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  ASSERT_EQ(drain(), 0);
  receive_nak(wire::NakCode::kRemoteAccess, 100);
  EXPECT_EQ(queue_pair->state(), State::kErr);
  EXPECT_FALSE(draining());
  EXPECT_TRUE(events.list.empty());
}

TEST_F(Drain, WhatMayChangeInSqdTakesEffect) {
  bring_up();
  ASSERT_EQ(drain(), 0);
  attributes.max_rd_atomic = 1;
  attributes.path.traffic_class = 0x20;
  ASSERT_EQ(modify(State::kSqd, kMaskAv | kMaskMaxRdAtomic), 0);
  ASSERT_EQ(modify(State::kRts), 0);
  for (int i = 0; i < 2; ++i) post(SendOperation::kRead, 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].packet.traffic_class, 0x20);
}

class EventsOfAQueuePair : public QueuePairTest {};

TEST_F(EventsOfAQueuePair, ACompletionThatHasNoRoom) {
  bring_up();
  for (uint32_t i = 0; i < kDepth; ++i) {
    post(SendOperation::kSend, 1);
    pump();
    receive_ack(100 + i);
  }
  EXPECT_TRUE(events.list.empty());
  post(SendOperation::kSend, 1);
  pump();
  receive_ack(100 + kDepth);
  ASSERT_FALSE(events.list.empty());
  EXPECT_EQ(events.list[0], Event::kFatal);
}

}  // namespace
}  // namespace uroce::qp::testing
