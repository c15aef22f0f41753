#include "tests/sim/incast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace uroce::sim {
namespace {

/// Virtual time: the same in each run.
Incast measured(const char* name, const IncastOptions& options) {
  const Incast incast = measure_incast(options);
  fmt::print(
      "{}: {:.3f} of the link, Jain {:.3f}, queue p99 {:.0f} kB, {} marked, {} lost, {} sent again, {} "
      "CNPs\n",
      name, incast.share, incast.jain, incast.queue_p99_kb, incast.marked, incast.lost, incast.sent_again,
      incast.cnps);
  return incast;
}

TEST(Incast, OfEightToOne) {
  const Incast none = measured("none", {});
  const Incast dcqcn = measured(
      "dcqcn", {.congestion = {.control = qp::CongestionControl::kDcqcn, .dcqcn = {.line_mbps = 25'000}}});
  EXPECT_EQ(none.marked, 0u) << "packets are not ECN-capable";
  EXPECT_GT(dcqcn.share, 0.9);
  EXPECT_GT(dcqcn.jain, 0.95);
  EXPECT_LT(dcqcn.queue_p99_kb, 300);
  EXPECT_LT(dcqcn.lost * 20, none.lost);
  EXPECT_GT(dcqcn.cnps, 0u);
}

}  // namespace
}  // namespace uroce::sim
