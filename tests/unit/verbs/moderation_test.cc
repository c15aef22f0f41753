#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "ends.h"

// ibv_modify_cq. When exactly an event comes is the business of tests/unit/queue; here it is that it comes.

namespace uroce::verbs_test {

class Moderation : public Connected {
 protected:
  Moderation() : Connected({.with_channel = true}) {}

  [[nodiscard]] int moderate(uint16_t count, uint16_t period, uint32_t mask = IBV_CQ_ATTR_MODERATE) const {
    ibv_modify_cq_attr wanted{.attr_mask = mask, .moderate = {.cq_count = count, .cq_period = period}};
    return ibv_modify_cq(other.cq, &wanted);
  }
  void send(uint64_t count) {
    for (uint64_t id = 0; id < count; ++id) {
      ASSERT_EQ(other.receive(id, other.all()), 0);
      ibv_sge segment = one.part(0, 8);
      ASSERT_EQ(one.send(send_request(id, segment)), 0);
      EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    }
  }
  /// Waits for it without polling.
  void expect_event() const {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(other.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq, other.cq);
    ibv_ack_cq_events(cq, 1);
  }
};

TEST_F(Moderation, ItsLimitsAreTold) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(one.context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.cq_mod_caps.max_cq_count, UINT16_MAX);
  EXPECT_EQ(attributes.cq_mod_caps.max_cq_period, UINT16_MAX);
  EXPECT_EQ(moderate(UINT16_MAX, UINT16_MAX), 0);
  EXPECT_EQ(moderate(1, 1, 0), EINVAL);
  EXPECT_EQ(moderate(1, 1, IBV_CQ_ATTR_MODERATE << 1), EINVAL);
}

TEST_F(Moderation, AnEventComesWhenThereAreAsMany) {
  ASSERT_EQ(moderate(4, UINT16_MAX), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
    send(4);
    expect_event();
    for (uint64_t id = 0; id < 4; ++id) EXPECT_EQ(other.next().wr_id, id);
  }
}

TEST_F(Moderation, AnEventComesOfFewerWhenTheTimeIsOver) {
  ASSERT_EQ(moderate(UINT16_MAX, 3000), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
    send(2);
    expect_event();
    for (uint64_t id = 0; id < 2; ++id) EXPECT_EQ(other.next().wr_id, id);
  }
}

TEST_F(Moderation, AQueueMayEndBeforeItsEvent) {
  ASSERT_EQ(moderate(UINT16_MAX, UINT16_MAX), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
  send(1);
  ASSERT_EQ(ibv_destroy_qp(other.qp), 0);
  ASSERT_EQ(ibv_destroy_cq(other.cq), 0);
  other.cq = ibv_create_cq(other.context, 8, nullptr, other.channel, 0);
  other.qp = nullptr;
  ASSERT_NE(other.cq, nullptr);
}

}  // namespace uroce::verbs_test
