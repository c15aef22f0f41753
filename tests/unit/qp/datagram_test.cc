#include "qp/attributes/datagram_address.h"
#include "qp/attributes/operations.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

constexpr uint32_t kGrh = 40;

/// UD: each message is a packet of its own, from any queue pair to any other.
class Datagram : public QueuePairTest {
 protected:
  Datagram() : QueuePairTest(Type::kUd) {}

  [[nodiscard]] wire::Headers from_a_peer(Operation operation = Operation::kSendOnly) const {
    wire::Headers headers = from_peer(operation, 77);
    headers.deth = {.qkey = kQkey, .source = {0x333}};
    return headers;
  }
};

TEST_F(Datagram, GoesWhereItsRequestSays) {
  bring_up();
  wire::Path other = attributes.path;
  other.destination_mac = {{2, 0, 0, 0, 0, 9}};
  other.source = Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  other.destination = Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  post(SendOperation::kSend, kMtu);
  queue::SendRequest& second = post(SendOperation::kSendImm, 0);
  second.immediate = 0x01020304;
  sends.attach(second,
               DatagramAddress{.frame = wire::FrameTemplate(other), .destination = {0x99}, .qkey = 5});
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].operation(), Operation::kSendOnly);
  EXPECT_EQ(frames[0].packet.row->opcode.service(), wire::Service::kUd);
  EXPECT_EQ(frames[0].packet.headers.bth.destination, attributes.destination);
  EXPECT_EQ(frames[0].packet.headers.deth.qkey, kPeersQkey);
  EXPECT_EQ(frames[0].packet.headers.deth.source, queue_pair->number());
  EXPECT_EQ(frames[0].payload(), memory_at(0, kMtu));
  EXPECT_FALSE(frames[0].ack_request());
  EXPECT_EQ(frames[1].operation(), Operation::kSendOnlyImm);
  EXPECT_EQ(frames[1].packet.destination, other.destination);
  EXPECT_EQ(frames[1].packet.destination_mac, other.destination_mac);
  EXPECT_EQ(frames[1].packet.headers.bth.destination, QpNumber{0x99});
  EXPECT_EQ(frames[1].packet.headers.deth.qkey, 5u);
  EXPECT_EQ(frames[1].packet.headers.immediate, 0x01020304u);
  EXPECT_EQ(frames[1].psn(), frames[0].psn() + 1);
  EXPECT_EQ(send_completions().size(), 2u);
  EXPECT_EQ(queue_pair->deadline(), kNever);
}

TEST_F(Datagram, GoUpToTheFirstThatIsRefused) {
  bring_up();
  const auto post_to = [&](uint32_t destination, bool to_self) {
    sends.attach(post(SendOperation::kSend, 1), DatagramAddress{.frame = wire::FrameTemplate(attributes.path),
                                                                .to_self = to_self,
                                                                .destination = {destination}});
  };
  std::vector<std::optional<QpNumber>> asked;
  const auto refuse = [&](QpNumber refused) {
    return [&, refused](std::optional<QpNumber> to) {
      asked.push_back(to);
      return to != refused;
    };
  };
  EXPECT_EQ(queue_pair->datagrams_until_refused(16, refuse({1})), 1u) << "none is due";
  for (const uint32_t destination : {7u, 8u, 9u}) post_to(destination, true);
  post_to(9, false);
  EXPECT_EQ(queue_pair->datagrams_until_refused(16, refuse({9})), 2u);
  EXPECT_EQ(queue_pair->datagrams_until_refused(16, refuse({7})), 0u);
  EXPECT_EQ(queue_pair->datagrams_until_refused(2, refuse({9})), 2u);
  asked.clear();
  EXPECT_EQ(queue_pair->datagrams_until_refused(16, refuse({1})), 4u);
  EXPECT_EQ(asked,
            (std::vector<std::optional<QpNumber>>{QpNumber{7}, QpNumber{8}, QpNumber{9}, std::nullopt}));
}

TEST_F(Datagram, ABitOfTheQkeyMeansOurOwn) {
  bring_up();
  for (const uint32_t qkey : {0x80000000u, 0xFFFFFFFFu}) {
    DatagramAddress address{.frame = wire::FrameTemplate(attributes.path), .destination = {1}, .qkey = qkey};
    sends.attach(post(SendOperation::kSend, 1), address);
  }
  for (const Sent& frame : pump()) EXPECT_EQ(frame.packet.headers.deth.qkey, kQkey);
}

TEST_F(Datagram, LiesBehindItsIpv6Header) {
  attributes.path.source = Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  attributes.path.destination = Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  attributes.path.traffic_class = 0x12;
  bring_up();
  // In pieces that the borders of header and payload do not match.
  post_receive_pieces({segment(0, 7), segment(100, 30), segment(300, 60)});
  receive(from_a_peer(), pattern(57, 4));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].bytes, kGrh + 57);
  Bytes all = memory_at(0, 7);
  for (const auto& [offset, length] : {std::pair{100, 30}, std::pair{300, 60}}) {
    const Bytes piece = memory_at(static_cast<uint64_t>(offset), static_cast<size_t>(length));
    all.insert(all.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(all[0], std::byte{0x61});
  EXPECT_EQ(all[1], std::byte{0x20});
  EXPECT_EQ(all[8], std::byte{0xFE});
  EXPECT_EQ(all[23], std::byte{9}) << "which host sent it";
  EXPECT_EQ(all[39], std::byte{1});
  EXPECT_EQ(Bytes(all.begin() + kGrh, all.end()), pattern(57, 4));
}

/// By a queue pair that is not in use yet, which stays so, and by one that is.
class DroppedDatagram : public Datagram, public ::testing::WithParamInterface<bool> {
 protected:
  DroppedDatagram() {
    bring_up();
    if (GetParam()) static_cast<void>(queue_pair.lazy().use());
  }
  [[nodiscard]] bool is_used() { return queue_pair.lazy().used() != nullptr; }
};

TEST_P(DroppedDatagram, ThatCannotBeTakenGoesInSilenceAndItsReceiveServesTheNext) {
  receive(from_a_peer(), pattern(4));
  EXPECT_EQ(counter(Counter::kDropNoReceive), 1u);
  post_receive(kGrh + 3, 4000);
  const Bytes before = memory_at(4000, 100);
  receive(from_a_peer(), pattern(4));
  EXPECT_EQ(counter(Counter::kDropTooLong), 1u);
  receive(from_a_peer(), pattern(kMtu + 1));
  EXPECT_EQ(counter(Counter::kDropTooLong), 2u);
  for (const uint32_t qkey : {kQkey ^ 1, kQkey ^ (1u << 31), 0u}) {
    wire::Headers headers = from_a_peer();
    headers.deth.qkey = qkey;
    receive(headers, pattern(1));
  }
  EXPECT_EQ(counter(Counter::kDropQkey), 3u);
  wire::Headers headers = from_a_peer();
  headers.bth.partition_key = 0x1234;
  receive(headers, pattern(1));
  EXPECT_EQ(counter(Counter::kDropPartitionKey), 1u);
  headers = from_a_peer();
  headers.bth.opcode = wire::Opcode::make(wire::Service::kUc, Operation::kSendOnly);
  receive(headers, pattern(1));
  EXPECT_EQ(counter(Counter::kDropService), 1u);

  EXPECT_TRUE(receive_completions().empty());
  EXPECT_EQ(memory_at(4000, 100), before);
  EXPECT_EQ(is_used(), GetParam());
  EXPECT_TRUE(pump().empty());
  receive(from_a_peer(), pattern(3));
  EXPECT_EQ(receive_completions().size(), 1u);
  EXPECT_EQ(queue_pair->state(), State::kRts);
}

TEST_P(DroppedDatagram, IsLongerThanThePortsMtuWhateverItsReceiveTakes) {
  post_receive(kGrh + 2 * kMtu);
  receive(from_a_peer(), pattern(kMtu + 1));
  EXPECT_EQ(counter(Counter::kDropTooLong), 1u);
  EXPECT_EQ(is_used(), GetParam());
  receive(from_a_peer(), pattern(kMtu));
  EXPECT_EQ(receive_completions().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Used, DroppedDatagram, ::testing::Bool());

TEST_F(Datagram, MayComeFromASharedReceiveQueue) {
  queue::SharedReceiveQueue shared{{.depth = 2, .domain = {1}}};
  options.shared_receives = &shared;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  queue::ReceiveRequest& request = *shared.reserve();
  request.length = 100;
  request.segments = 1;
  shared.segments(request)[0] = segment(4000, 100);
  shared.publish(request);
  receive(from_a_peer(), pattern(61));
  EXPECT_EQ(counter(Counter::kDropTooLong), 1u);
  EXPECT_FALSE(shared.empty()) << "it is still everybody's";
  receive(from_a_peer(), pattern(60));
  EXPECT_EQ(receive_completions().size(), 1u);
  EXPECT_TRUE(shared.empty());
  for (int i = 0; i < 2; ++i) EXPECT_NE(shared.reserve(), nullptr) << "the slot is back";
}

TEST_F(Datagram, OurOwnBrokenBufferIsOurError) {
  bring_up();
  queue::Segment bad = segment(4000, 60);
  bad.lkey = {0xBAD};
  post_receive_pieces({segment(0, 40), bad});
  post_receive(100);
  const Bytes before = memory_at(0, 40);
  receive(from_a_peer(), pattern(60));
  const auto done = receive_completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[1].status, CompletionStatus::kFlushed);
  EXPECT_EQ(memory_at(0, 40), before) << "not one byte of what fits not as a whole";
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

TEST(Operations, EachServiceHasItsOwn) {
  struct Row {
    SendOperation operation;
    bool rc, uc, ud, xrc_send;
  };
  constexpr Row kTable[] = {
      {SendOperation::kSend, true, true, true, true},
      {SendOperation::kSendImm, true, true, true, true},
      {SendOperation::kSendInvalidate, true, false, false, true},
      {SendOperation::kWrite, true, true, false, true},
      {SendOperation::kWriteImm, true, true, false, true},
      {SendOperation::kRead, true, false, false, true},
      {SendOperation::kReadInvalidate, true, false, false, true},
      {SendOperation::kLocalInvalidate, true, true, false, true},
      {SendOperation::kRegister, true, true, false, true},
      {SendOperation::kBindWindow, true, true, false, true},
  };
  for (const Row& row : kTable) {
    EXPECT_EQ(has_operation(Type::kRc, row.operation), row.rc);
    EXPECT_EQ(has_operation(Type::kUc, row.operation), row.uc);
    EXPECT_EQ(has_operation(Type::kUd, row.operation), row.ud);
    EXPECT_EQ(has_operation(Type::kXrcSend, row.operation), row.xrc_send);
    EXPECT_FALSE(has_operation(Type::kXrcReceive, row.operation)) << "it only receives";
  }
}

}  // namespace
}  // namespace uroce::qp::testing
