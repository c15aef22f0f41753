#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "ends.h"

// What ibv_query_device says can be had, in full and at once; and one more is refused, and does not break
// what is there.

namespace uroce::verbs_test {

class Limits : public ::testing::Test {
 protected:
  void SetUp() override {
    context = ibv_open_device(device_at(0));
    ASSERT_NE(context, nullptr);
    ASSERT_EQ(ibv_query_device(context, &limits), 0);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
    ASSERT_NE(pd, nullptr);
    ASSERT_NE(cq, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }

  /// `there` of them exist already. All others, then one too many; then one is given back and had again.
  template <typename Object>
  void have_all(int limit, int there, const std::function<Object*()>& make, int (*destroy)(Object*)) {
    std::vector<Object*> all;
    for (int i = there; i < limit; ++i) {
      Object* const object = make();
      ASSERT_NE(object, nullptr) << i << " of " << limit << ", errno " << errno;
      all.push_back(object);
    }
    errno = 0;
    EXPECT_EQ(make(), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(destroy(all.back()), 0);
    all.back() = make();
    ASSERT_NE(all.back(), nullptr);
    for (Object* object : all) ASSERT_EQ(destroy(object), 0);
  }
  ibv_qp_init_attr smallest() const {
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = cq;
    initial.qp_type = IBV_QPT_RC;
    initial.cap = {1, 1, 1, 1, 0};
    return initial;
  }

  ibv_context* context = nullptr;
  ibv_device_attr limits{};
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
};

TEST_F(Limits, Domains) {
  have_all<ibv_pd>(
      limits.max_pd, 1, [&] { return ibv_alloc_pd(context); }, ibv_dealloc_pd);
}

TEST_F(Limits, CompletionQueues) {
  have_all<ibv_cq>(
      limits.max_cq, 1, [&] { return ibv_create_cq(context, 1, nullptr, nullptr, 0); }, ibv_destroy_cq);
}

TEST_F(Limits, QueuePairs) {
  have_all<ibv_qp>(
      limits.max_qp, 0,
      [&] {
        ibv_qp_init_attr initial = smallest();
        return ibv_create_qp(pd, &initial);
      },
      ibv_destroy_qp);
}

TEST_F(Limits, SharedReceiveQueues) {
  have_all<ibv_srq>(
      limits.max_srq, 0,
      [&] {
        ibv_srq_init_attr initial{};
        initial.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
        return ibv_create_srq(pd, &initial);
      },
      ibv_destroy_srq);
}

TEST_F(Limits, AddressHandles) {
  ibv_ah_attr to_self{};
  to_self.is_global = 1;
  to_self.port_num = 1;
  to_self.grh.sgid_index = 1;
  ASSERT_EQ(ibv_query_gid(context, 1, 1, &to_self.grh.dgid), 0);
  have_all<ibv_ah>(
      limits.max_ah, 0, [&] { return ibv_create_ah(pd, &to_self); }, ibv_destroy_ah);
}

TEST_F(Limits, LongestQueuesOfTheLongestRequests) {
  ibv_cq* const longest = ibv_create_cq(context, limits.max_cqe, nullptr, nullptr, 0);
  ASSERT_NE(longest, nullptr);
  EXPECT_GE(longest->cqe, limits.max_cqe);
  ibv_srq_init_attr receives{};
  receives.attr = {.max_wr = static_cast<uint32_t>(limits.max_srq_wr),
                   .max_sge = static_cast<uint32_t>(limits.max_srq_sge),
                   .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd, &receives);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr initial = smallest();
  initial.send_cq = initial.recv_cq = longest;
  initial.cap.max_send_wr = initial.cap.max_recv_wr = static_cast<uint32_t>(limits.max_qp_wr);
  initial.cap.max_send_sge = initial.cap.max_recv_sge = static_cast<uint32_t>(limits.max_sge);
  ibv_qp* const qp = ibv_create_qp(pd, &initial);
  ASSERT_NE(qp, nullptr);

  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  ASSERT_EQ(
      ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      0);
  std::vector<ibv_sge> segments(static_cast<size_t>(limits.max_sge));
  ibv_recv_wr request{};
  request.sg_list = segments.data();
  request.num_sge = limits.max_sge;
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < limits.max_qp_wr; ++i) ASSERT_EQ(ibv_post_recv(qp, &request, &bad), 0);
  EXPECT_EQ(ibv_post_recv(qp, &request, &bad), ENOMEM);
  for (int i = 0; i < limits.max_srq_wr; ++i) ASSERT_EQ(ibv_post_srq_recv(srq, &request, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &request, &bad), ENOMEM);

  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(longest), 0);
}

}  // namespace uroce::verbs_test
