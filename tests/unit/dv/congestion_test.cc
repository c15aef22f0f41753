// What decides how fast a queue pair sends, read and changed by its program.
#include <infiniband/urocedv.h>

#include <cerrno>

#include "arguments.h"
#include "ends.h"

namespace uroce::verbs_test {
namespace {

class CongestionControl : public Connected {
 protected:
  static urocedv_qp_congestion of(End& end) {
    urocedv_qp_congestion congestion{};
    EXPECT_EQ(urocedv_query_qp_congestion(end.qp, &congestion), 0);
    return congestion;
  }
};

TEST_F(CongestionControl, IsNoneUnlessConfiguredAndCanBeChanged) {
  urocedv_qp_congestion congestion = of(one);
  EXPECT_EQ(congestion.control, UROCEDV_CONGESTION_NONE);
  EXPECT_EQ(congestion.window_packets, 256u);
  EXPECT_EQ(congestion.rate_kbps, 0u);
  EXPECT_EQ(congestion.cnps, 0u);
  EXPECT_EQ(congestion.round_trip_ns, 0u);
  for (const auto control : {UROCEDV_CONGESTION_SWIFT, UROCEDV_CONGESTION_DCQCN, UROCEDV_CONGESTION_NONE}) {
    ASSERT_EQ(urocedv_modify_qp_congestion(one.qp, control), 0);
    congestion = of(one);
    EXPECT_EQ(congestion.control, control);
    EXPECT_EQ(congestion.window_packets, control == UROCEDV_CONGESTION_SWIFT ? 1u : 256u);
    EXPECT_EQ(of(other).control, UROCEDV_CONGESTION_NONE) << "each queue pair has its own";
  }
}

TEST_F(CongestionControl, HasTheNamesOfTheConfiguration) {
  EXPECT_STREQ(urocedv_congestion_name(UROCEDV_CONGESTION_NONE), "none");
  EXPECT_STREQ(urocedv_congestion_name(UROCEDV_CONGESTION_DCQCN), "dcqcn");
  EXPECT_STREQ(urocedv_congestion_name(UROCEDV_CONGESTION_SWIFT), "swift");
  errno = 0;
  EXPECT_EQ(urocedv_congestion_name(none_of<urocedv_congestion_control>()), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(CongestionControl, IsRefused) {
  urocedv_qp_congestion congestion{.comp_mask = 1};
  EXPECT_EQ(urocedv_query_qp_congestion(one.qp, &congestion), EINVAL);
  EXPECT_EQ(urocedv_modify_qp_congestion(one.qp, none_of<urocedv_congestion_control>()), EINVAL);
  EXPECT_EQ(of(one).control, UROCEDV_CONGESTION_NONE);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = one.cq;
  wanted.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_UD;
  ibv_qp* const datagrams = ibv_create_qp(one.pd, &wanted);
  EXPECT_EQ(urocedv_modify_qp_congestion(datagrams, UROCEDV_CONGESTION_NONE), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(datagrams), 0);
  wanted.qp_type = IBV_QPT_UC;
  ibv_qp* const unreliable = ibv_create_qp(one.pd, &wanted);
  EXPECT_EQ(urocedv_modify_qp_congestion(unreliable, UROCEDV_CONGESTION_SWIFT), EOPNOTSUPP);
  EXPECT_EQ(urocedv_modify_qp_congestion(unreliable, UROCEDV_CONGESTION_DCQCN), 0);
  EXPECT_EQ(ibv_destroy_qp(unreliable), 0);
}

}  // namespace
}  // namespace uroce::verbs_test
