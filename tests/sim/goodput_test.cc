#include "tests/sim/goodput.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "qp/connection/send_window.h"

namespace uroce::sim {
namespace {

using queue::SendOperation;

/// What is left of the goodput of a link without loss. Virtual time: the same in each run.
double share_of_lossless(const GoodputOptions& options) {
  const Goodput lossless = measure_goodput(
      {.round_trip = options.round_trip, .messages = options.messages, .operation = options.operation});
  const Goodput lossy = measure_goodput(options);
  const double share = lossy.gigabits_per_second / lossless.gigabits_per_second;
  fmt::print(
      "{}{}, loss {:.2f} %, {} % late, round trip {} us: {:.2f} of {:.2f} Gbit/s ({:.3f}), {} packets sent "
      "again, {} ACK timeouts\n",
      options.operation == SendOperation::kRead ? "READ" : "WRITE",
      options.selective_repeat ? "" : " by go-back-N", static_cast<double>(options.loss) / 1000,
      options.reordering / 1000, options.round_trip.ns / 1000, lossy.gigabits_per_second,
      lossless.gigabits_per_second, share, lossy.sent_again, lossy.ack_timeouts);
  EXPECT_EQ(lossless.sent_again, 0u);
  return share;
}

TEST(Goodput, OfALinkThatLosesOnePacketInAHundred) {
  EXPECT_GT(share_of_lossless({.loss = 1000, .round_trip = microseconds(100)}), 0.9);
  EXPECT_GT(share_of_lossless({.loss = 1000, .round_trip = microseconds(20)}), 0.97);
}

TEST(Goodput, OfReads) {
  EXPECT_GT(
      share_of_lossless({.loss = 1000, .round_trip = microseconds(100), .operation = SendOperation::kRead}),
      0.6);
  EXPECT_GT(
      share_of_lossless({.loss = 100, .round_trip = microseconds(100), .operation = SendOperation::kRead}),
      0.9);
}

/// Reordering is not loss.
TEST(Goodput, OfALinkThatReorders) {
  GoodputOptions options{.reordering = 25'000, .round_trip = microseconds(100), .messages = 2000};
  EXPECT_GT(share_of_lossless(options), 0.95);
  const Goodput reordered = measure_goodput(options);
  EXPECT_LT(reordered.sent_again, reordered.packets / 100);
  options.operation = SendOperation::kRead;
  EXPECT_GT(share_of_lossless(options), 0.9);
}

TEST(Goodput, OfALinkThatLosesOnePacketInAThousand) {
  EXPECT_GT(share_of_lossless({.loss = 100, .round_trip = microseconds(100)}), 0.98);
}

/// What selective repeat is worth, at the round trips and losses of the tests above.
TEST(Goodput, ByGoBackN) {
  for (const SendOperation operation : {SendOperation::kWrite, SendOperation::kRead})
    for (const int64_t us : {20, 100})
      for (const uint64_t loss : {100u, 1000u}) {
        GoodputOptions options{
            .loss = loss, .round_trip = microseconds(us), .operation = operation, .selective_repeat = false};
        const double by_go_back_n = share_of_lossless(options);
        EXPECT_GT(by_go_back_n, 0.01);
        options.selective_repeat = true;
        EXPECT_LT(by_go_back_n, share_of_lossless(options));
      }
}

/// A window of 256 packets in a round trip is what a long path allows, not what its wire takes.
TEST(Goodput, OfALongFastPath) {
  constexpr uint32_t kLinkGigabits = 100;
  constexpr Duration kRoundTrip = milliseconds(1);
  const double of_window = 8.0 * qp::SendWindow::kPackets * 4096 / static_cast<double>(kRoundTrip.ns);
  for (const uint64_t loss : {0u, 100u, 1000u}) {
    const Goodput goodput = measure_goodput(
        {.loss = loss, .link_gigabits = kLinkGigabits, .round_trip = kRoundTrip, .messages = 2000});
    fmt::print("WRITE on a link of {} Gbit/s, loss {} %, round trip {} us: {:.2f} of {:.2f} Gbit/s\n",
               kLinkGigabits, static_cast<double>(loss) / 1000, kRoundTrip.ns / 1000,
               goodput.gigabits_per_second, of_window);
    EXPECT_GT(goodput.gigabits_per_second, (loss == 0 ? 0.9 : loss == 100 ? 0.8 : 0.3) * of_window);
  }
}

/// What Swift costs a flow that is alone.
double share_under_swift(GoodputOptions options) {
  const Goodput none = measure_goodput(options);
  options.congestion.control = qp::CongestionControl::kSwift;
  const Goodput swift = measure_goodput(options);
  const double share = swift.gigabits_per_second / none.gigabits_per_second;
  fmt::print(
      "{} of {} KiB, loss {:.2f} %, round trip {} us: {:.2f} Gbit/s by swift, {:.2f} without ({:.3f})\n",
      options.operation == SendOperation::kRead ? "READ" : "WRITE", options.bytes >> 10,
      static_cast<double>(options.loss) / 1000, options.round_trip.ns / 1000, swift.gigabits_per_second,
      none.gigabits_per_second, share);
  return share;
}

TEST(Goodput, OfOneFlowUnderSwift) {
  EXPECT_GT(share_under_swift({.round_trip = microseconds(20)}), 0.98);
  EXPECT_GT(share_under_swift({.round_trip = microseconds(100)}), 0.98);
  EXPECT_GT(share_under_swift({.loss = 1000, .round_trip = microseconds(100)}), 0.95);
  EXPECT_GT(share_under_swift({.round_trip = milliseconds(1), .messages = 4000}), 0.97);
}

/// Also of READs that are longer than a part.
TEST(Goodput, OfReadsUnderSwift) {
  for (const uint32_t bytes : {64u << 10, 1u << 20}) {
    const auto of = [&](Duration round_trip, uint32_t messages) {
      return share_under_swift({.round_trip = round_trip,
                                .messages = messages * (64 << 10) / bytes,
                                .bytes = bytes,
                                .operation = SendOperation::kRead});
    };
    EXPECT_GT(of(microseconds(20), 1000), 0.97);
    EXPECT_GT(of(microseconds(100), 1000), 0.97);
    EXPECT_GT(of(milliseconds(1), 8000), 0.97);
  }
}

}  // namespace
}  // namespace uroce::sim
