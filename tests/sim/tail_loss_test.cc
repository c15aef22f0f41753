// The last packet of a burst is lost, and nothing comes behind it that would show the gap.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <stdexcept>

#include "qp/recovery/transport_timers.h"
#include "tests/sim/endpoint.h"
#include "tests/sim/linked_hosts.h"
#include "tests/sim/virtual_clock.h"

namespace uroce::sim {
namespace {

using queue::SendOperation;

constexpr uint8_t kTimeout = 14;  // 67 ms
constexpr uint32_t kPackets = 8;
constexpr uint32_t kPacketBytes = 4096;

/// One queue pair of the first host with one message at a time.
class Burst {
 public:
  explicit Burst(Duration round_trip, uint32_t packets = kPackets)
      : hosts({.round_trip = round_trip}), bytes_(packets * kPacketBytes) {
    for (size_t side = 0; side < ends_.size(); ++side) {
      ends_[side].emplace(hosts.host(side), Endpoint::Options{.signal_all = true}, hosts.random());
      slots_[side] = ends_[side]->arena.lend(bytes_, hosts.random()).value();
    }
    connect(*ends_[0], *ends_[1], {.path_mtu = PathMtu::k4096, .timeout = kTimeout});
  }

  void post(SendOperation operation) {
    queue::SendQueue& queue = ends_[0]->sends();
    queue::SendRequest& request = *queue.reserve();
    request.operation = operation;
    request.remote_address = ends_[1]->arena.iova(slots_[1]);
    request.rkey = ends_[1]->arena.keys().rkey;
    request.length = bytes_;
    request.segments = 1;
    queue.segments(request)[0] = ends_[0]->arena.segment(slots_[0]);
    queue.publish();
    ends_[0]->publish_sends();
  }

  /// How long it takes from now on until the message is complete.
  Duration wait() {
    const Instant begin = VirtualClock::now();
    std::array<queue::Completion, 1> found;
    while (ends_[0]->poll_sends(found) == 0) hosts.step(kNever);
    if (found[0].status != queue::CompletionStatus::kSuccess)
      throw std::runtime_error("the connection has broken");
    return VirtualClock::now() - begin;
  }

  Duration send(SendOperation operation) {
    post(operation);
    return wait();
  }

  [[nodiscard]] uint64_t counter(Counter counter) { return hosts.host(0).device().counter(counter); }

  LinkedHosts hosts;

 private:
  const uint32_t bytes_;
  std::array<std::optional<Endpoint>, 2> ends_;
  std::array<Arena::Slot, 2> slots_;
};

/// perf/loss_rows.py reads it.
void expect_within(const char* what, Duration round_trip, Duration whole, Duration took, Duration most) {
  const auto us = [](Duration time) { return static_cast<double>(time.ns) / 1000; };
  fmt::print("{}, round trip {} us, lossless {:.1f} us: {:.1f} us, {:.1f} at most\n", what,
             round_trip.ns / 1000, us(whole), us(took), us(most));
  EXPECT_LE(took.ns, most.ns) << what;
}

class TailLoss : public ::testing::TestWithParam<int64_t> {
 protected:
  [[nodiscard]] static Duration round_trip() { return microseconds(GetParam()); }
};

TEST_P(TailLoss, OfAConnectionThatHasLostNothing_ExpectFourRoundTrips) {
  for (const uint32_t before : {1u, 20u}) {
    Burst burst(round_trip());
    Duration whole{};
    for (uint32_t i = 0; i < before; ++i) whole = burst.send(SendOperation::kWrite);
    burst.hosts.loss_from(0).lose(kPackets);
    burst.post(SendOperation::kWrite);
    const Duration took = burst.wait();
    ASSERT_TRUE(burst.hosts.loss_from(0).done());
    expect_within("last packet of a WRITE", round_trip(), whole, took, whole * 4);
    EXPECT_EQ(burst.counter(Counter::kRetransmittedPackets), 1u);
    EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
  }
}

TEST_P(TailLoss, OfTheAcknowledgement_ExpectFourRoundTrips) {
  Burst burst(round_trip(), 1);
  const Duration whole = burst.send(SendOperation::kWrite);
  burst.hosts.loss_from(1).lose(1);
  expect_within("ACK of a WRITE", round_trip(), whole, burst.send(SendOperation::kWrite), whole * 4);
  ASSERT_TRUE(burst.hosts.loss_from(1).done());
  EXPECT_EQ(burst.counter(Counter::kRetransmittedPackets), 1u);
  EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
}

TEST_P(TailLoss, OfAResponse_ExpectFourRoundTrips) {
  Burst burst(round_trip());
  const Duration whole = burst.send(SendOperation::kRead);
  burst.hosts.loss_from(1).lose(kPackets);
  expect_within("last response to a READ", round_trip(), whole, burst.send(SendOperation::kRead), whole * 4);
  EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
}

/// The ACK of the first packet tells how long a round trip takes.
TEST_P(TailLoss, OfTheVeryFirstBurst_ExpectFourRoundTrips) {
  Burst burst(round_trip());
  burst.hosts.loss_from(0).lose(kPackets);
  const Duration took = burst.send(SendOperation::kWrite);
  const Duration whole = burst.send(SendOperation::kWrite);
  expect_within("last packet of the first WRITE", round_trip(), whole, took, whole * 4);
  EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
}

/// Nothing tells it: a part of the ACK timeout has to pass.
TEST_P(TailLoss, OfAQueuePairsFirstPacketAlone_ExpectASixteenthOfTheAckTimeout) {
  Burst burst(round_trip(), 1);
  burst.hosts.loss_from(0).lose(1);
  const Duration took = burst.send(SendOperation::kWrite);
  const Duration whole = burst.send(SendOperation::kWrite);
  const Duration most = Duration{qp::ack_timeout(kTimeout).ns / 16} + round_trip() * 2;
  expect_within("only packet of the first WRITE", round_trip(), whole, took, most);
  EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
}

/// Shorter round trips are below what a thread may be off its CPU for.
INSTANTIATE_TEST_SUITE_P(RoundTripsOfMicroseconds, TailLoss, ::testing::Values(100, 1000),
                         [](const auto& instance) { return std::to_string(instance.param); });

/// A probe of a packet that was not lost costs one packet, and a peer that is late again and again gets few.
TEST(TailProbes, OfAPeerThatIsMerelySlow_ExpectFewerAndFewer) {
  Burst burst(microseconds(20));
  burst.send(SendOperation::kWrite);
  constexpr int kStops = 100;
  for (int i = 0; i < kStops; ++i) {
    burst.post(SendOperation::kWrite);
    burst.hosts.stop_second(milliseconds(5));
    burst.wait();
  }
  fmt::print("{} probes of a peer that is stopped {} times for 5 ms\n",
             burst.counter(Counter::kRetransmittedPackets), kStops);
  EXPECT_LE(burst.counter(Counter::kRetransmittedPackets), 8u);
  EXPECT_EQ(burst.counter(Counter::kAckTimeout), 0u);
}

}  // namespace
}  // namespace uroce::sim
