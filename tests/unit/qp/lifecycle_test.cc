#include <cerrno>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

using Lifecycle = QueuePairTest;

TEST_F(Lifecycle, ErrorFlushesEverythingInOrder) {
  bring_up();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(post(SendOperation::kSend, 1).wr_id);
  post_receive(1);
  post_receive(1);
  pump_once(2);
  ASSERT_EQ(modify(State::kErr), 0);
  const auto sends_done = send_completions();
  ASSERT_EQ(sends_done.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sends_done[i].status, CompletionStatus::kFlushed);
    EXPECT_EQ(sends_done[i].wr_id, ids[i]);
  }
  EXPECT_EQ(receive_completions().size(), 2u);
  EXPECT_EQ(queue_pair->deadline(), kNever);
}

TEST_F(Lifecycle, UnsignaledRequestsAreFlushedWithACompletion) {
  bring_up();
  post(SendOperation::kSend, 1).signaled = false;
  ASSERT_EQ(modify(State::kErr), 0);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(Lifecycle, ResetForgetsEverythingWithoutCompletions) {
  bring_up();
  post(SendOperation::kSend, 1);
  post_receive(1);
  pump();
  receive_read(5000, 0, kMtu * 4);
  ASSERT_EQ(modify(State::kReset), 0);
  EXPECT_TRUE(send_completions().empty());
  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(sends.outstanding(), 0u);
  EXPECT_EQ(receives.outstanding(), 0u);
  EXPECT_EQ(queue_pair->deadline(), kNever);
  EXPECT_TRUE(pump().empty());
  // And it can be used again.
  bring_up();
  post(SendOperation::kSend, 1);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 100u);
}

TEST_F(Lifecycle, StrangersAreCountedAndIgnored) {
  bring_up();
  const Gid peer = attributes.path.destination;
  const Gid us = attributes.path.source;
  attributes.path.destination = Gid::from_ipv4({10, 0, 0, 3});
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 4));
  attributes.path.destination = peer;
  attributes.path.source = Gid::from_ipv4({10, 0, 0, 3});
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 4));
  attributes.path.source = us;
  EXPECT_EQ(counter(Counter::kDropWrongPeer), 2u);
  wire::Headers headers = from_peer(Operation::kWriteOnly, 5000);
  headers.bth.partition_key = 0x8001;
  headers.reth = {kIova, keys.rkey, 1};
  receive(headers, pattern(1, 4));
  EXPECT_EQ(counter(Counter::kDropPartitionKey), 1u);
  headers.bth.opcode = wire::Opcode::make(wire::Service::kUc, Operation::kWriteOnly);
  receive(headers, pattern(1, 4));
  EXPECT_EQ(counter(Counter::kDropService), 1u);
  EXPECT_EQ(memory_at(0, 1), pattern(1));
  EXPECT_TRUE(pump().empty());
  // A limited member of the default partition may talk to us.
  headers = from_peer(Operation::kWriteOnly, 5000);
  headers.bth.partition_key = 0x7FFF;
  headers.reth = {kIova, keys.rkey, 1};
  receive(headers, pattern(1, 4));
  EXPECT_EQ(memory_at(0, 1), pattern(1, 4));
}

TEST_F(Lifecycle, ThePartitionIsThatOfTheIndex) {
  constexpr uint16_t kKeys[] = {0xFFFF, 0x0123};
  transport.partition_keys = kKeys;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  attributes.pkey_index = 2;
  EXPECT_EQ(modify(State::kInit, kMaskAccessFlags | kMaskPkeyIndex | kMaskPort), EINVAL);
  attributes.pkey_index = 1;
  bring_up();
  post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().at(0).packet.headers.bth.partition_key, 0x0123);
  const auto hears = [&](uint16_t key) {
    const uint64_t before = counter(Counter::kDropPartitionKey);
    wire::Headers headers = from_peer(Operation::kAcknowledge, 99);
    headers.bth.partition_key = key;
    receive(headers);
    return counter(Counter::kDropPartitionKey) == before;
  };
  EXPECT_TRUE(hears(0x8123));
  EXPECT_FALSE(hears(0x0123)) << "two limited members";
  EXPECT_FALSE(hears(0x8124));
  EXPECT_FALSE(hears(0xFFFF));
}

TEST_F(Lifecycle, EveryFrameHasTheFieldsOfItsAddress) {
  attributes.path.traffic_class = 0xB9;
  attributes.path.hop_limit = 17;
  attributes.path.has_vlan = true;
  attributes.path.vlan_tci = 5 << 13 | 7;
  bring_up();
  post(SendOperation::kWrite, 2 * kMtu);
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1, 4));
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 3u) << "two packets and an answer";
  for (const Sent& frame : sent) {
    EXPECT_EQ(frame.packet.traffic_class, 0xB9);
    EXPECT_EQ(frame.packet.hop_limit, 17);
    EXPECT_TRUE(frame.packet.has_vlan);
    EXPECT_EQ(frame.packet.vlan_tci, 5 << 13 | 7);
    EXPECT_EQ(frame.packet.udp_source_port, wire::udp_source_port(wire::SourcePorts::kFlowLabel, 0,
                                                                  options.number, attributes.destination));
  }
}

TEST_F(Lifecycle, MigReqIsThatOfTheDeviceInEveryPacket) {
  for (const bool mig_req : {true, false}) {
    SCOPED_TRACE(mig_req);
    ASSERT_EQ(modify(State::kReset), 0);
    transport.mig_req = mig_req;
    bring_up();
    post(SendOperation::kWrite, 2 * kMtu);
    post(SendOperation::kRead, 10);
    receive_read(5000, 0, kMtu + 1);
    receive_write(Operation::kWriteOnly, 5002, 0, 1, pattern(1, 4));
    const std::vector<Sent> sent = pump();
    ASSERT_EQ(sent.size(), 6u) << "three requests, two responses and an ACK";
    for (const Sent& frame : sent) EXPECT_EQ(frame.packet.headers.bth.migration, mig_req);
  }
}

TEST_F(Lifecycle, TheSourcePortFollowsTheRecipe) {
  transport.source_ports = wire::SourcePorts::kQueuePair;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().at(0).packet.udp_source_port,
            wire::udp_source_port(wire::SourcePorts::kQueuePair, 0, options.number, attributes.destination));
}

TEST(PartitionKeys, TwoMembersTalkUnlessBothAreLimited) {
  EXPECT_TRUE(may_talk(0xFFFF, 0xFFFF));
  EXPECT_TRUE(may_talk(0xFFFF, 0x7FFF));
  EXPECT_TRUE(may_talk(0x7FFF, 0xFFFF));
  EXPECT_FALSE(may_talk(0x7FFF, 0x7FFF));
  EXPECT_FALSE(may_talk(0xFFFF, 0x8001));
  EXPECT_TRUE(may_talk(0x8001, 0x0001));
}

TEST_F(Lifecycle, AnOverrunCompletionQueueBreaksTheConnection) {
  bring_up();
  queue::CompletionQueue tiny({.depth = 1});
  queue_pair = std::make_unique<QueuePairStorage>(
      QueuePair::Options{.number = {0x11},
                         .domain = domain,
                         .send_queue = &sends,
                         .receive_queue = &receives,
                         .send_completions = &tiny,
                         .receive_completions = &receive_queue_completions});
  bring_up();
  for (int i = 0; i < 3; ++i) post(SendOperation::kSend, 1);
  pump();
  receive_ack(101);
  EXPECT_EQ(queue_pair->state(), State::kErr);
  EXPECT_TRUE(tiny.overrun());
  EXPECT_GE(counter(Counter::kCqOverrun), 1u);
  EXPECT_EQ(sends.outstanding(), 0u);
  completions.publish_all();
}

TEST_F(Lifecycle, ModifyRefusesAndChangesNothing) {
  EXPECT_EQ(modify(State::kRts, kMaskSqPsn), EINVAL);
  EXPECT_EQ(modify(State::kInit, kMaskAccessFlags), EINVAL);
  bring_up(State::kInit);
  attributes.min_rnr_timer = 32;
  const AttributeMask to_rtr =
      kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
  EXPECT_EQ(modify(State::kRtr, to_rtr), EINVAL);
  attributes.min_rnr_timer = 1;
  attributes.max_dest_rd_atomic = 17;
  EXPECT_EQ(modify(State::kRtr, to_rtr), EINVAL);
  attributes.max_dest_rd_atomic = 16;
  EXPECT_EQ(modify(State::kRtr, to_rtr | kMaskAltPath), EOPNOTSUPP);
  EXPECT_EQ(queue_pair->state(), State::kInit);
  EXPECT_EQ(queue_pair->attributes().max_dest_rd_atomic, 0);
  EXPECT_EQ(modify(State::kRtr, to_rtr), 0);
  EXPECT_EQ(queue_pair->attributes().max_dest_rd_atomic, 16);
}

TEST_F(Lifecycle, TheCurrentStateMustBeTheCurrentState) {
  bring_up();
  attributes.current_state = State::kSqd;
  EXPECT_EQ(modify(State::kRts, kMaskCurrentState), EINVAL);
  attributes.current_state = State::kRts;
  EXPECT_EQ(modify(State::kRts, kMaskCurrentState), 0);
}

}  // namespace
}  // namespace uroce::qp::testing
