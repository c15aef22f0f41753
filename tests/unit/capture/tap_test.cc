#include "capture/tap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "wire/frame.h"

namespace uroce::capture {
namespace {

using Frame = std::vector<std::byte>;
constexpr QpNumber kOurs{0x11};
constexpr QpNumber kPeers{0x22};
const Gid kOurAddress = Gid::from_ipv4({192, 0, 2, 1});
const Gid kPeerAddress = Gid::from_ipv4({192, 0, 2, 2});

/// A port that gives what it is given, and takes as many frames as it is told to.
class Port final : public port::PortQueue {
 public:
  uint16_t receive(std::span<port::RxFrame> frames) override {
    const size_t count = std::min(frames.size(), arrived.size());
    std::copy_n(arrived.begin(), count, frames.begin());
    arrived.erase(arrived.begin(), arrived.begin() + static_cast<long>(count));
    return static_cast<uint16_t>(count);
  }
  void release(std::span<const port::RxFrame>) override {}
  uint16_t allocate(std::span<port::TxFrame>) override { return 0; }
  uint16_t transmit(std::span<const port::TxFrame> frames) override {
    when_transmitting();
    return static_cast<uint16_t>(std::min(frames.size(), takes));
  }
  void free(std::span<const port::TxFrame>) override {}
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length};
  }

  std::vector<port::RxFrame> arrived;
  size_t takes = SIZE_MAX;
  std::function<void()> when_transmitting = [] {};
};

class Finder final : public QueuePairFinder {
 public:
  [[nodiscard]] std::optional<QueuePairFacts> find(QpNumber number) const override {
    if (number != kOurs) return std::nullopt;
    return QueuePairFacts{.number = kOurs,
                          .state = 3,
                          .due_request = 5,
                          .due_response = 9,
                          .peer = kPeers,
                          .peer_address = kPeerAddress};
  }
};

struct Seen {
  Record record;
  Frame bytes;
};

class TapTest : public ::testing::Test {
 protected:
  TapTest() : layout_({.pollers = 1, .slots = 64, .slot_bytes = 192}), memory_(layout_.bytes() / 64) {}

  Tap& tap(const Order& order = {}) {
    tap_.emplace(Tap::Options{.port = port_,
                              .counters = counters_,
                              .queue_pairs = finder_,
                              .clock_ns = [] { return int64_t{77}; },
                              .order = order},
                 RingWriter(data(), layout_, 0));
    return *tap_;
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()); }
  static Frame frame(bool in, wire::Operation operation, QpNumber to) {
    wire::FrameTemplate path(
        {.source = in ? kPeerAddress : kOurAddress, .destination = in ? kOurAddress : kPeerAddress});
    path.set_peer(0xFFFF, to, false);
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, operation);
    headers.bth.destination = to;
    Frame made(wire::frame_bytes(path, headers.bth.opcode, 0));
    wire::write_headers(made, path, headers, 0);
    wire::finish_frame(made, path, headers.bth.opcode, 0);
    return made;
  }
  void arrive(Frame& one) {
    port_.arrived.push_back({.data = one.data(), .length = static_cast<uint32_t>(one.size())});
  }
  size_t receive() {
    std::vector<port::RxFrame> frames(32);
    return tap_->receive(frames);
  }
  std::vector<Seen> seen() {
    RingReader reader(data(), layout_, 0);
    std::vector<Seen> all;
    Frame bytes(512);
    while (const auto record = reader.read(bytes))
      all.push_back({*record, {bytes.begin(), bytes.begin() + record->captured}});
    return all;
  }

  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  const RingLayout layout_;
  std::vector<Line> memory_;
  Port port_;
  Counters counters_;
  Finder finder_;
  std::optional<Tap> tap_;
};

TEST_F(TapTest, BothDirections_ExpectFramesAndWhatIsKnownOfTheQueuePair) {
  tap();
  Frame in = frame(true, wire::Operation::kSendOnly, kOurs);
  Frame out = frame(false, wire::Operation::kAcknowledge, kPeers);
  arrive(in);
  EXPECT_EQ(receive(), 1u);
  const port::TxFrame sent{.data = out.data(), .capacity = 0, .length = static_cast<uint32_t>(out.size())};
  EXPECT_EQ(tap_->transmit({&sent, 1}), 1);
  const auto all = seen();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].record.kind, RecordKind::kIn);
  EXPECT_EQ(all[0].record.time_ns, 77);
  EXPECT_EQ(all[0].bytes, in);
  EXPECT_EQ(all[1].record.kind, RecordKind::kOut);
  EXPECT_EQ(all[1].bytes, out);
  for (const Seen& one : all) {
    EXPECT_TRUE(one.record.has_context);
    EXPECT_EQ(one.record.queue_pair, kOurs.value);
    EXPECT_EQ(one.record.due_request, 5u);
  }
}

TEST_F(TapTest, WhatThePortDoesNotTake_ExpectItCapturedWhenItDoes) {
  tap();
  Frame out = frame(false, wire::Operation::kSendOnly, kPeers);
  const std::vector<port::TxFrame> three(
      3, {.data = out.data(), .capacity = 0, .length = static_cast<uint32_t>(out.size())});
  port_.takes = 1;
  EXPECT_EQ(tap_->transmit(three), 1);
  EXPECT_EQ(seen().size(), 1u);
  port_.takes = 0;
  EXPECT_EQ(tap_->transmit(std::span(three).subspan(1)), 0);
  EXPECT_EQ(seen().size(), 1u);
  port_.takes = 2;
  EXPECT_EQ(tap_->transmit(std::span(three).subspan(1)), 2);
  EXPECT_EQ(seen().size(), 3u);
}

TEST_F(TapTest, Orders_ExpectOnlyWhatIsMeant) {
  Frame send = frame(true, wire::Operation::kSendOnly, kOurs);
  Frame other = frame(true, wire::Operation::kSendOnly, QpNumber{0x33});
  Frame ack = frame(true, wire::Operation::kAcknowledge, kOurs);
  Frame arp(60);
  Frame out = frame(false, wire::Operation::kSendOnly, kPeers);
  Frame elsewhere = frame(false, wire::Operation::kSendOnly, QpNumber{0x44});
  const auto captured = [&](const Order& order) {
    std::fill(memory_.begin(), memory_.end(), Line());
    tap(order);
    for (Frame* one : {&send, &other, &ack, &arp}) arrive(*one);
    EXPECT_EQ(receive(), 4u);
    for (Frame* one : {&out, &elsewhere}) {
      const port::TxFrame sent{
          .data = one->data(), .capacity = 0, .length = static_cast<uint32_t>(one->size())};
      EXPECT_EQ(tap_->transmit({&sent, 1}), 1);
    }
    return seen().size();
  };
  EXPECT_EQ(captured({}), 6u);
  EXPECT_EQ(captured({.scope = {.queue_pair = kOurs}}), 3u);
  EXPECT_EQ(captured({.opcode = "SEND"}), 4u);
  EXPECT_EQ(captured({.direction = Direction::kIn}), 4u);
  EXPECT_EQ(captured({.direction = Direction::kOut}), 2u);
  EXPECT_EQ(captured({.scope = {.queue_pair = kOurs}, .opcode = "Acknowledge"}), 1u);
}

TEST_F(TapTest, DroppedFrames_ExpectTheReasonAtTheFrame) {
  tap();
  Frame good = frame(true, wire::Operation::kSendOnly, kOurs);
  Frame bad = good;
  bad.back() ^= std::byte{1};
  arrive(good);
  arrive(bad);
  EXPECT_EQ(receive(), 2u);
  counters_.add(Counter::kDropIcrc);
  receive();
  const auto all = seen();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].record.kind, RecordKind::kReason);
  EXPECT_EQ(all[2].record.about, 1u);
  EXPECT_EQ(all[2].record.reason, static_cast<uint16_t>(Counter::kDropIcrc));
  EXPECT_EQ(all[2].record.candidates, 0u);
}

TEST_F(TapTest, OneOfSeveralWasDropped_ExpectEachCalledACandidate) {
  tap();
  Frame one = frame(true, wire::Operation::kSendOnly, kOurs);
  arrive(one);
  arrive(one);
  EXPECT_EQ(receive(), 2u);
  counters_.add(Counter::kRxEarly);  // no drop
  counters_.add(Counter::kDropSequence);
  receive();
  const auto all = seen();
  ASSERT_EQ(all.size(), 4u);
  for (const size_t i : {2u, 3u}) EXPECT_EQ(all[i].record.candidates, 2u);
}

TEST_F(TapTest, NaksAndErrors_ExpectThemCounted) {
  tap();
  counters_.add(Counter::kRetryExceeded);
  counters_.add(Counter::kRnrNakSent);  // flow control, and no error
  Frame ack = frame(true, wire::Operation::kAcknowledge, kOurs);
  Frame nak = ack;
  // The syndrome, behind Ethernet, IPv4, UDP and BTH.
  nak[14 + 20 + 8 + 12] = std::byte{0x62};
  arrive(ack);
  arrive(nak);
  receive();
  EXPECT_EQ(RingReader(data(), layout_, 0).errors(), 2u);
}

TEST_F(TapTest, NakThatThePortDoesNotTake_ExpectItCountedWhenItIsSentAndCanBeRead) {
  tap();
  Frame nak = frame(false, wire::Operation::kAcknowledge, kPeers);
  nak[14 + 20 + 8 + 12] = std::byte{0x62};
  const std::vector<port::TxFrame> frames{{.data = nak.data(), .length = static_cast<uint32_t>(nak.size())}};
  RingReader reader(data(), layout_, 0);
  port_.takes = 0;
  EXPECT_EQ(tap_->transmit(frames), 0u);
  EXPECT_EQ(reader.errors(), 0u);
  port_.takes = 1;
  // A reader sees it no sooner than its frame.
  port_.when_transmitting = [&] { EXPECT_EQ(reader.errors(), 0u); };
  EXPECT_EQ(tap_->transmit(frames), 1u);
  EXPECT_EQ(reader.errors(), 1u);
  EXPECT_EQ(seen().size(), 1u);
}

}  // namespace
}  // namespace uroce::capture
