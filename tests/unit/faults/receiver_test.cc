// What faults do to the packets that a poller receives.
#include "faults/receiver.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace uroce::faults {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kFrameBytes = 512;

/// Gives the frames that a test puts into it, and knows where each is.
class FakeQueue final : public port::PortQueue {
 public:
  void put(Bytes frame, bool has_icrc = true) {
    Bytes* const owned = new Bytes(std::move(frame));
    ++owned_;
    waiting_.push_back({.data = owned->data(),
                        .length = static_cast<uint32_t>(owned->size()),
                        .has_icrc = has_icrc,
                        .handle = owned});
  }
  [[nodiscard]] int owned() const { return owned_; }
  bool has_buffers = true;

  uint16_t receive(std::span<port::RxFrame> frames) override {
    size_t count = 0;
    for (; count < frames.size() && !waiting_.empty(); ++count) {
      frames[count] = waiting_.front();
      waiting_.pop_front();
    }
    return static_cast<uint16_t>(count);
  }
  void release(std::span<const port::RxFrame> frames) override {
    for (const port::RxFrame& frame : frames) {
      delete static_cast<Bytes*>(frame.handle);
      --owned_;
    }
  }
  uint16_t allocate(std::span<port::TxFrame> frames) override {
    if (!has_buffers) return 0;
    for (port::TxFrame& frame : frames) {
      Bytes* const owned = new Bytes(kFrameBytes);
      ++owned_;
      frame = {.data = owned->data(), .capacity = kFrameBytes, .handle = owned};
    }
    return static_cast<uint16_t>(frames.size());
  }
  uint16_t transmit(std::span<const port::TxFrame>) override { return 0; }
  void free(std::span<const port::TxFrame>) override {}
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length, .handle = frame.handle};
  }

 private:
  std::deque<port::RxFrame> waiting_;
  int owned_ = 0;
};

struct Received {
  uint32_t psn;
  bool intact;
  uint8_t traffic_class;
  std::optional<OrderedRefusal> refusal;
};

class ReceiverTest : public ::testing::TestWithParam<bool> {
 protected:
  static Bytes frame(uint32_t psn, bool ipv4, wire::Operation operation = wire::Operation::kSendOnly,
                     QpNumber to = {77}) {
    wire::Path path;
    path.source = ipv4 ? Gid::from_ipv4({192, 0, 2, 1}) : Gid{{0x20, 1, 1}};
    path.destination = ipv4 ? Gid::from_ipv4({192, 0, 2, 2}) : Gid{{0x20, 1, 2}};
    const wire::FrameTemplate before(path);
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, operation);
    headers.bth.destination = to;
    headers.bth.psn = Psn(psn);
    const uint32_t payload = operation == wire::Operation::kAcknowledge ? 0 : 16;
    Bytes bytes(kFrameBytes);
    wire::write_headers(bytes, before, headers, payload);
    bytes.resize(wire::finish_frame(bytes, before, headers.bth.opcode, payload));
    return bytes;
  }

  void set(std::vector<std::string> texts) {
    std::vector<NumberedRule> rules;
    for (const std::string& text : texts)
      rules.push_back({static_cast<uint32_t>(rules.size() + 1), parse_rule(text).value()});
    receiver_.set(rules);
  }
  /// Packets `first` to `last` come.
  void come(uint32_t first, uint32_t last) {
    for (uint32_t psn = first; psn <= last; ++psn) queue_.put(frame(psn, GetParam()));
  }
  std::vector<Received> receive() {
    std::vector<Received> all;
    std::array<port::RxFrame, 32> frames;
    while (const uint16_t count = receiver_.receive(frames)) {
      for (const port::RxFrame& one : std::span(frames).first(count)) {
        wire::Packet packet;
        EXPECT_EQ(wire::parse_frame({one.data, one.length}, packet).result, wire::ParseResult::kRoce);
        all.push_back({.psn = packet.headers.bth.psn.value(),
                       .intact = !one.has_icrc || wire::icrc_matches(packet),
                       .traffic_class = packet.traffic_class,
                       .refusal = receiver_.refusal_of(one.data)});
      }
      queue_.release(std::span(frames).first(count));
    }
    return all;
  }
  std::vector<uint32_t> receive_psns() {
    std::vector<uint32_t> psns;
    for (const Received& one : receive()) psns.push_back(one.psn);
    return psns;
  }
  [[nodiscard]] uint64_t counted(FaultCount count, size_t rule = 0) const {
    return counts_[rule].read(count);
  }

  ~ReceiverTest() override { EXPECT_EQ(queue_.owned(), 0); }

  Instant now_ = {1'000'000};
  Counters counters_;
  std::array<FaultCounts, kRulesMax> counts_{};
  FakeQueue queue_;
  Receiver receiver_{
      {.port = queue_, .now = now_, .counters = counters_, .counts = counts_, .frame_bytes = kFrameBytes}};
};

std::vector<uint32_t> from_to(uint32_t first, uint32_t last) {
  std::vector<uint32_t> all;
  for (uint32_t i = first; i <= last; ++i) all.push_back(i);
  return all;
}

TEST_P(ReceiverTest, WithoutRulesAllComeAsTheyAre) {
  come(1, 100);
  EXPECT_EQ(receive_psns(), from_to(1, 100));
}

TEST_P(ReceiverTest, LosesTheSamePacketsWithTheSameSeed) {
  set({"loss=20%,seed=5"});
  come(1, 1000);
  const auto first = receive_psns();
  EXPECT_EQ(first.size(), 1000 - counted(FaultCount::kLost));
  EXPECT_GT(counted(FaultCount::kLost), 140u);
  EXPECT_LT(counted(FaultCount::kLost), 260u);
  EXPECT_EQ(counters_.read(Counter::kFaultLost), counted(FaultCount::kLost));
  EXPECT_EQ(counted(FaultCount::kSeen), 1000u);
  set({});
  set({"loss=20%,seed=5"});
  come(1, 1000);
  EXPECT_EQ(receive_psns(), first);
  set({});
  set({"loss=20%,seed=6"});
  come(1, 1000);
  EXPECT_NE(receive_psns(), first);
}

TEST_P(ReceiverTest, OtherEffectsDoNotChangeWhichAreLost) {
  set({"loss=20%,seed=5"});
  come(1, 300);
  const auto first = receive_psns();
  set({});
  set({"loss=20%,seed=5", "duplicate=50%,seed=9"});
  come(1, 300);
  auto second = receive_psns();
  now_ = now_ + seconds(1);
  std::ranges::sort(second);
  second.erase(std::ranges::unique(second).begin(), second.end());
  EXPECT_EQ(second, first);
}

TEST_P(ReceiverTest, DelaysAndKeepsTheOrderDespiteJitter) {
  set({"delay=100us,jitter=50us"});
  come(1, 200);
  EXPECT_TRUE(receive().empty());
  EXPECT_TRUE(receiver_.has_delayed());
  EXPECT_LE((receiver_.deadline() - now_).ns, microseconds(150).ns);
  now_ = now_ + microseconds(49);
  EXPECT_TRUE(receive().empty());
  now_ = now_ + microseconds(102);
  EXPECT_EQ(receive_psns(), from_to(1, 200));
  EXPECT_FALSE(receiver_.has_delayed());
  EXPECT_EQ(receiver_.deadline(), kNever);
  EXPECT_EQ(counted(FaultCount::kDelayed), 200u);
}

TEST_P(ReceiverTest, ADelayThatEndsLetsNoneOvertake) {
  set({"delay=100us"});
  come(1, 10);
  EXPECT_TRUE(receive().empty());
  set({"delay=100us", "loss=1%"});
  come(11, 20);
  EXPECT_TRUE(receive().empty());
  set({});
  come(21, 30);
  EXPECT_EQ(receive_psns(), from_to(1, 30));
}

TEST_P(ReceiverTest, ReorderedOnesAreOvertaken) {
  set({"reorder=10%"});
  come(1, 100);
  auto came = receive_psns();
  const size_t late = counted(FaultCount::kReordered);
  ASSERT_GT(late, 0u);
  EXPECT_EQ(came.size(), 100 - late);
  now_ = now_ + microseconds(150);
  const auto rest = receive_psns();
  EXPECT_EQ(rest.size(), late);
}

TEST_P(ReceiverTest, DuplicatesComeTwice) {
  set({"duplicate=100%"});
  come(1, 3);
  auto came = receive_psns();
  std::ranges::sort(came);
  EXPECT_EQ(came, (std::vector<uint32_t>{1, 1, 2, 2, 3, 3}));
}

TEST_P(ReceiverTest, CorruptedOnesHaveAWrongIcrcAlsoIfTheyHadNone) {
  set({"corrupt=50%"});
  for (uint32_t psn = 1; psn <= 100; ++psn) queue_.put(frame(psn, GetParam()), psn % 2 == 0);
  size_t damaged = 0;
  const auto came = receive();
  EXPECT_EQ(came.size(), 100u);
  for (const Received& one : came) damaged += one.intact ? 0 : 1;
  EXPECT_EQ(damaged, counted(FaultCount::kCorrupted));
  EXPECT_GT(damaged, 20u);
}

TEST_P(ReceiverTest, MarkedOnesAreIntact) {
  set({"ecn=100%"});
  come(1, 10);
  for (const Received& one : receive()) {
    EXPECT_EQ(one.traffic_class & 3, 3);
    EXPECT_TRUE(one.intact);
  }
  EXPECT_EQ(counted(FaultCount::kMarked), 10u);
}

TEST_P(ReceiverTest, RequestsAreForRefusalAndResponsesAreNot) {
  set({"nak=rnr:100%"});
  come(1, 1);
  queue_.put(frame(2, GetParam(), wire::Operation::kAcknowledge));
  queue_.put(frame(3, GetParam(), wire::Operation::kSendOnly), false);
  const auto came = receive();
  ASSERT_EQ(came.size(), 3u);
  EXPECT_TRUE(came[0].refusal && !came[0].intact);
  EXPECT_TRUE(!came[1].refusal && came[1].intact);
  EXPECT_TRUE(came[2].refusal && !came[2].intact);
  EXPECT_EQ(counted(FaultCount::kRefused), 0u);
  receiver_.note_refused(*came[0].refusal);
  EXPECT_EQ(counted(FaultCount::kRefused), 1u);
}

TEST_P(ReceiverTest, KeepsToARate) {
  const auto bits = static_cast<int64_t>(frame(1, GetParam()).size() * 8);
  set({"rate=1Mbit"});
  come(1, 10);
  EXPECT_TRUE(receive().empty());
  now_ = now_ + microseconds(bits * 5 + 1);
  EXPECT_EQ(receive_psns(), from_to(1, 5));
  now_ = now_ + microseconds(bits * 5 + 1);
  EXPECT_EQ(receive_psns(), from_to(6, 10));
}

TEST_P(ReceiverTest, ConcernsOneQueuePairAtItsTime) {
  set({"qp=78,loss=100%,after=1ms,for=1ms"});
  const auto left = [&] {
    queue_.put(frame(1, GetParam(), wire::Operation::kSendOnly, {77}));
    queue_.put(frame(2, GetParam(), wire::Operation::kSendOnly, {78}));
    return receive_psns();
  };
  EXPECT_EQ(left(), from_to(1, 2));
  now_ = now_ + milliseconds(1);
  EXPECT_EQ(left(), from_to(1, 1));
  now_ = now_ + milliseconds(1);
  EXPECT_EQ(left(), from_to(1, 2));
  EXPECT_EQ(counted(FaultCount::kSeen), 1u);
}

TEST_P(ReceiverTest, LosesAndCountsWhatThereIsNoRoomFor) {
  set({"delay=1s"});
  come(1, Receiver::kDelayedMax + 10);
  EXPECT_TRUE(receive().empty());
  EXPECT_EQ(counted(FaultCount::kOverflowed), 10u);
  now_ = now_ + seconds(1);
  queue_.has_buffers = false;
  EXPECT_TRUE(receive().empty());
  queue_.has_buffers = true;
  EXPECT_EQ(receive_psns(), from_to(1, Receiver::kDelayedMax));
}

TEST_P(ReceiverTest, WhatIsNotRoceMeetsNothing) {
  set({"loss=100%"});
  queue_.put(Bytes(64));
  std::array<port::RxFrame, 4> frames;
  ASSERT_EQ(receiver_.receive(frames), 1);
  queue_.release(std::span(frames).first(1));
}

INSTANTIATE_TEST_SUITE_P(Ip, ReceiverTest, ::testing::Bool(),
                         [](const auto& ip) { return ip.param ? "V4" : "V6"; });

}  // namespace
}  // namespace uroce::faults
