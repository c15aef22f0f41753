#include "tests/sim/incast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace uroce::sim {
namespace {

/// Virtual time: the same in each run.
Incast measured(const char* name, const IncastOptions& options) {
  const Incast incast = measure_incast(options);
  fmt::print("{}: {}\n", name, text_of(incast));
  return incast;
}

TEST(Incast, OfEightToOne) {
  const Incast none = measured("none", {});
  const Incast dcqcn = measured("dcqcn", {.congestion = {.control = qp::CongestionControl::kDcqcn,
                                                         .parameters = {{"line_mbps", 25'000}}}});
  EXPECT_EQ(none.marked, 0u) << "packets are not ECN-capable";
  EXPECT_GT(dcqcn.share, 0.9);
  EXPECT_GT(dcqcn.jain, 0.95);
  EXPECT_LT(dcqcn.queue_p99_kb, 300);
  EXPECT_LT(dcqcn.lost * 20, none.lost);
  EXPECT_EQ(dcqcn.sent_again, 0u) << "a round trip that grows is no loss";
  EXPECT_GT(dcqcn.cnps, 0u);
}

TEST(Incast, BySwiftWithoutMarks) {
  const Incast swift = measured("swift", {.congestion = {.control = qp::CongestionControl::kSwift}});
  EXPECT_EQ(swift.marked, 0u);
  EXPECT_GT(swift.share, 0.95);
  EXPECT_GT(swift.jain, 0.99);
  EXPECT_LT(swift.queue_p99_kb, 250);
  EXPECT_EQ(swift.lost + swift.lost_before + swift.sent_again + swift.sent_again_before, 0u);
}

/// A requester limits what it asks for.
TEST(Incast, OfResponsesBySwift) {
  const Incast none = measured("READs, none", {.operation = queue::SendOperation::kRead});
  const Incast swift = measured("READs, swift", {.congestion = {.control = qp::CongestionControl::kSwift},
                                                 .operation = queue::SendOperation::kRead});
  EXPECT_GT(none.lost, 0u);
  EXPECT_GT(swift.share, 0.95);
  EXPECT_GT(swift.jain, 0.95);
  EXPECT_EQ(swift.lost + swift.sent_again, 0u);
}

/// A host that begins later finds the queue of those before it, and cannot see how short the path is.
TEST(Incast, BySwiftOfHostsThatBeginOneAfterTheOther) {
  const Incast swift =
      measured("swift, base_us 15, hosts begin 1 ms apart",
               {.congestion = {.control = qp::CongestionControl::kSwift, .parameters = {{"base_us", 15}}},
                .warm_up = milliseconds(30),
                .apart = milliseconds(1)});
  EXPECT_GT(swift.share, 0.95);
  EXPECT_GT(swift.jain, 0.95);
  EXPECT_LT(swift.queue_p99_kb, 250);
  EXPECT_EQ(swift.lost + swift.lost_before + swift.sent_again + swift.sent_again_before, 0u);
}

}  // namespace
}  // namespace uroce::sim
