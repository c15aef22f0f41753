#include "tests/unit/qp/fixture.h"
#include "wire/frame.h"

namespace uroce::qp::testing {
namespace {

using wire::Operation;

constexpr uint8_t kCe = 3;

class Congestion : public QueuePairTest {
 protected:
  /// What goes out is made of the path that it was brought up with; what comes is marked.
  void bring_up_with_marks() {
    bring_up();
    attributes.path.traffic_class = kCe;
  }
};

TEST_F(Congestion, TheBytesOfACnp) {
  bring_up_with_marks();
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1));
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 2u) << "before the ACK";
  const Bytes& frame = sent[0].frame;
  constexpr size_t kIp = 14;
  constexpr size_t kUdp = kIp + 20;
  constexpr size_t kBth = kUdp + 8;
  ASSERT_EQ(frame.size(), kIp + 60) << "the length that others' have";
  EXPECT_EQ(frame[kIp + 1], std::byte{0xC2});
  const uint32_t peer = attributes.destination.value;
  const auto byte_of = [](uint32_t number, unsigned shift) { return std::byte(number >> shift & 0xFF); };
  const Bytes udp_ports = {std::byte{0x12}, std::byte{0xB7}, std::byte{0}, std::byte{40}};  // to 4791, length
  EXPECT_EQ(Bytes(frame.begin() + kUdp + 2, frame.begin() + kUdp + 6), udp_ports);
  Bytes expected = {std::byte{0x81}, std::byte{0}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0x40}};
  for (const unsigned shift : {16u, 8u, 0u}) expected.push_back(byte_of(peer, shift));
  expected.resize(12 + 16);  // PSN and reserved bytes: zeros
  EXPECT_EQ(Bytes(frame.begin() + kBth, frame.end() - 4), expected);
  EXPECT_TRUE(wire::icrc_matches(sent[0].packet));
  EXPECT_EQ(counter(Counter::kTxCnp), 1u);
}

TEST_F(Congestion, AnIntervalOfZero_ExpectNoCnp) {
  transport.congestion.cnp_interval_us = 0;
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up_with_marks();
  receive_write(Operation::kWriteOnly, 5000, 0, 1, pattern(1));
  EXPECT_EQ(pump().size(), 1u) << "the ACK";
  EXPECT_EQ(counter(Counter::kRxCe), 1u);
}

/// The first CNP makes a rate of 8 Gbit/s, a nanosecond for a byte, and the next increase is 55 us away.
class RateOfDcqcn : public QueuePairTest {
 protected:
  RateOfDcqcn() {
    transport.congestion = {.control = CongestionControl::kDcqcn, .parameters = {{"line_mbps", 16'000}}};
    queue_pair = std::make_unique<QueuePairStorage>(options);
  }

  void receive_cnp() {
    wire::Headers headers = from_peer(Operation::kAcknowledge, 0);
    headers.bth.opcode = wire::kCnpOpcode;
    headers.bth.becn = true;
    receive(headers);
  }
  /// What leaves now, and then nothing before its time has come.
  void expect_one_at_a_time(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Sent> sent = pump();
      ASSERT_EQ(sent.size(), 1u) << "packet " << i;
      EXPECT_EQ(sent[0].packet.traffic_class, 2) << "ECT(0)";
      if (i + 1 == count) break;
      const Duration paced{static_cast<int64_t>(sent[0].frame.size())};
      const Instant due = turn.now + paced;
      advance(paced - nanoseconds(1));
      EXPECT_TRUE(pump().empty());
      ASSERT_EQ(queue_pair->deadline(), due);
      expire();
      EXPECT_EQ(turn.now, due);
    }
  }
};

TEST_F(RateOfDcqcn, WithoutACnpAllLeavesAtOnce) {
  bring_up();
  post(queue::SendOperation::kWrite, 8 * kMtu);
  EXPECT_EQ(pump().size(), 8u);
}

TEST_F(RateOfDcqcn, AfterACnpRequestsLeaveAtItsRate) {
  bring_up();
  receive_cnp();
  EXPECT_EQ(counter(Counter::kRxCnp), 1u);
  post(queue::SendOperation::kWrite, 8 * kMtu);
  expect_one_at_a_time(8);
}

TEST_F(RateOfDcqcn, SoDoTheResponsesToAREAD) {
  grant(mem::kRemoteRead);
  bring_up();
  receive_cnp();
  receive_read(5000, 0, 4 * kMtu);
  expect_one_at_a_time(4);
}

TEST_F(RateOfDcqcn, ACnpOfAnotherAddressChangesNothing) {
  bring_up();
  const wire::Path path = attributes.path;
  attributes.path.destination.bytes[15] ^= 1;
  receive_cnp();
  attributes.path = path;
  EXPECT_EQ(counter(Counter::kDropWrongPeer), 1u);
  post(queue::SendOperation::kWrite, 8 * kMtu);
  EXPECT_EQ(pump().size(), 8u);
}

/// The first CNP makes 4 Gbit/s of the port's speed, and 2 ns for a byte.
TEST_F(RateOfDcqcn, TheSpeedOfThePortIsThatOfTheLineUnlessOneIsConfigured) {
  const auto wait_for_second = [this] {
    bring_up();
    receive_cnp();
    post(queue::SendOperation::kWrite, 2 * kMtu);
    const std::vector<Sent> sent = pump();
    EXPECT_EQ(sent.size(), 1u);
    return (queue_pair->deadline() - turn.now).ns / static_cast<int64_t>(sent.at(0).frame.size());
  };
  turn.line_mbps = 8000;
  transport.congestion.parameters = {};
  queue_pair = std::make_unique<QueuePairStorage>(options);
  EXPECT_EQ(wait_for_second(), 2);
  transport.congestion.parameters = {{"line_mbps", 16'000}};
  queue_pair = std::make_unique<QueuePairStorage>(options);
  EXPECT_EQ(wait_for_second(), 1);
}

TEST_F(RateOfDcqcn, AnEndThatIsRefusedLeavesTheAlgorithm) {
  bring_up();
  receive_cnp();
  EXPECT_FALSE(queue_pair->answer(turn, 16)) << "nothing is owed";
  EXPECT_EQ(queue_pair->congestion().mbps, 0) << "nothing is held back until then";
  receive_cnp();
  post(queue::SendOperation::kWrite, 4 * kMtu);
  expect_one_at_a_time(4);
  EXPECT_EQ(queue_pair->congestion().cnps, 2u);
}

TEST_F(RateOfDcqcn, AnotherAlgorithmTakesOverAtOnce) {
  bring_up();
  receive_cnp();
  post(queue::SendOperation::kWrite, 8 * kMtu);
  EXPECT_EQ(pump().size(), 1u);
  EXPECT_EQ(queue_pair->congestion().mbps, 8000);
  EXPECT_EQ(queue_pair->congestion().cnps, 1u);
  ASSERT_EQ(queue_pair->set_congestion_control(CongestionControl::kNone), 0);
  EXPECT_EQ(queue_pair->congestion().mbps, 0);
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 7u);
  EXPECT_EQ(sent[0].packet.traffic_class, 0) << "marks are not heeded any more";
  EXPECT_EQ(queue_pair->congestion().cnps, 1u);
}

TEST_F(RateOfDcqcn, EcnBitsOfTheProgramStay) {
  attributes.path.traffic_class = 0x21;
  bring_up();
  post(queue::SendOperation::kWrite, 1);
  EXPECT_EQ(pump().at(0).packet.traffic_class, 0x21);
}

TEST_F(RateOfDcqcn, AnotherLifeOfTheQueuePairBeginsWithoutALimit) {
  bring_up();
  receive_cnp();
  ASSERT_EQ(modify(State::kReset), 0);
  bring_up();
  post(queue::SendOperation::kWrite, 8 * kMtu);
  EXPECT_EQ(pump().size(), 8u);
}

TEST_F(Congestion, UnderSwiftAWindowIsUnderWayThatRoundTripsMake) {
  transport.congestion = {.control = CongestionControl::kSwift};
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  post(queue::SendOperation::kWrite, 64 * kMtu);
  std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 1u) << "no round trip is known";
  EXPECT_EQ(sent[0].packet.traffic_class, 0) << "marks would not be heeded";
  advance(microseconds(10));
  receive_ack(sent.back().packet.headers.bth.psn.value());
  sent = pump();
  ASSERT_EQ(sent.size(), 10u);
  for (const Sent& frame : sent) EXPECT_TRUE(frame.packet.headers.bth.ack_request);
  advance(microseconds(10));
  receive_ack(sent.back().packet.headers.bth.psn.value());
  sent = pump();
  ASSERT_EQ(sent.size(), 20u);
  advance(milliseconds(1));
  receive_ack(sent.back().packet.headers.bth.psn.value());
  EXPECT_EQ(pump().size(), 1u) << "a queue is there: how long is the path without it";
}

/// Each part is a message to the peer, and it says how many more it can take.
TEST_F(Congestion, UnderSwiftAReadIsAskedForInShortParts) {
  transport.congestion = {.control = CongestionControl::kSwift};
  queue_pair = std::make_unique<QueuePairStorage>(options);
  attributes.max_rd_atomic = 16;
  bring_up();
  post(queue::SendOperation::kRead, 12 * kMtu);
  for (int i = 0; i < 4; ++i) post(queue::SendOperation::kSend, 1);
  const auto respond = [this](uint32_t first) {
    for (uint32_t i = 0; i < 4; ++i) {
      const Operation operation = i == 0   ? Operation::kReadResponseFirst
                                  : i == 3 ? Operation::kReadResponseLast
                                           : Operation::kReadResponseMiddle;
      wire::Headers headers = from_peer(operation, first + i);
      headers.aeth = wire::Aeth::ack((first - 100) / 4 + 1, 1);
      receive(headers, pattern(kMtu));
    }
  };
  std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].reth().length, 4 * kMtu);
  advance(microseconds(10));
  respond(100);
  sent = pump();
  ASSERT_GE(sent.size(), 2u);
  for (size_t part = 0; part < 2; ++part) {
    EXPECT_EQ(sent[part].psn(), 104 + 4 * part);
    EXPECT_EQ(sent[part].reth().length, 4 * kMtu);
  }
  respond(104);
  respond(108);
  for (const Sent& frame : pump()) sent.push_back(frame);
  EXPECT_EQ(sent.size(), 2u + 1u) << "one message may follow the three of the READ";
}

TEST_F(Congestion, UnderSwiftALargeWindowIsAcknowledgedInPart) {
  transport.congestion = {.control = CongestionControl::kSwift};
  queue_pair = std::make_unique<QueuePairStorage>(options);
  bring_up();
  post(queue::SendOperation::kWrite, 1000 * kMtu);
  std::vector<Sent> sent;
  for (const uint32_t window : {1u, 10u, 20u, 40u, 80u}) {
    sent = pump();
    ASSERT_EQ(sent.size(), window);
    // A batch at a time leaves, and the first one is timed.
    for (size_t i = 0; i < std::min<size_t>(window, 64); ++i) EXPECT_TRUE(sent[i].ack_request());
    advance(microseconds(10));
    if (window < 80) receive_ack(sent.back().psn());
  }
  // The first of them are answered, while the last is timed.
  receive_ack(sent[47].psn());
  sent = pump();
  ASSERT_EQ(sent.size(), 48u);
  const auto asking = std::ranges::count_if(sent, [](const Sent& frame) { return frame.ack_request(); });
  EXPECT_EQ(asking, 3);
}

TEST_F(Congestion, WithoutControlACnpIsCountedOnly) {
  bring_up();
  wire::Headers headers = from_peer(Operation::kAcknowledge, 0);
  headers.bth.opcode = wire::kCnpOpcode;
  receive(headers);
  EXPECT_EQ(counter(Counter::kRxCnp), 1u);
  post(queue::SendOperation::kWrite, 8 * kMtu);
  const std::vector<Sent> sent = pump();
  ASSERT_EQ(sent.size(), 8u);
  EXPECT_EQ(sent[0].packet.traffic_class, 0);
}

}  // namespace
}  // namespace uroce::qp::testing
