// SQD, and the asynchronous events of queue pairs.
#include <atomic>
#include <chrono>
#include <thread>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

class QpEvents : public Connected {
 protected:
  /// Waits for the next event of that end's context; the test's time limit bounds it.
  static ibv_async_event next_event(const End& end) {
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(end.context, &event), 0);
    return event;
  }
  static void expect_event(const End& end, ibv_event_type type) {
    ibv_async_event event = next_event(end);
    EXPECT_EQ(event.event_type, type);
    EXPECT_EQ(event.element.qp, end.qp);
    ibv_ack_async_event(&event);
  }
  static int modify(const End& end, ibv_qp_state state, int mask = 0) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.en_sqd_async_notify = 1;
    return ibv_modify_qp(end.qp, &attributes, IBV_QP_STATE | mask);
  }
  static ibv_qp_attr query(const End& end) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    EXPECT_EQ(ibv_query_qp(end.qp, &attributes, IBV_QP_STATE, &initial), 0);
    return attributes;
  }
  /// By `other`: its queue pair breaks as well.
  void be_refused() const {
    ibv_sge segment = one.part(0, 8);
    ibv_send_wr request = write_request(1, segment, other);
    request.wr.rdma.rkey ^= 1;
    ASSERT_EQ(one.send(request), 0);
    EXPECT_EQ(one.next().status, IBV_WC_REM_ACCESS_ERR);
  }
};

TEST_F(QpEvents, ADrainedSendQueueSaysSo) {
  ibv_sge segment = one.part(0, 1000);
  ASSERT_EQ(one.send(send_request(1, segment)), 0);  // there is no receive for it yet
  ASSERT_EQ(modify(one, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ASSERT_EQ(one.send(send_request(2, segment)), 0);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(other.receive(id, other.all()), 0);
  // When the first was not begun yet, it stays where it is.
  expect_event(one, IBV_EVENT_SQ_DRAINED);
  const ibv_qp_attr drained = query(one);
  EXPECT_EQ(drained.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(drained.sq_draining, 0);
  ASSERT_EQ(modify(one, IBV_QPS_RTS), 0);
  EXPECT_EQ(one.next().wr_id, 1U);
  EXPECT_EQ(one.next().wr_id, 2U);
}

TEST_F(QpEvents, ARefusedRequestIsAnEventOfWhoRefusedIt) {
  be_refused();
  expect_event(other, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(QpEvents, AnEventThatIsNotReadGoesWithItsQueuePair) {
  be_refused();
  EXPECT_EQ(query(other).qp_state, IBV_QPS_ERR);
}

TEST_F(QpEvents, DestroyWaitsForTheAcknowledgement) {
  be_refused();
  ibv_async_event event = next_event(other);
  std::atomic<bool> acknowledged{false};
  const std::jthread acknowledging([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    acknowledged = true;
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(ibv_destroy_qp(other.qp), 0);
  other.qp = nullptr;
  EXPECT_TRUE(acknowledged);
}

TEST(EstablishedEvent, TheFirstMessageBeforeRts) {
  End one(device_at(0), {});
  End other(device_at(1), {});
  one.to_init();
  other.to_init();
  other.to_rtr(one);
  one.to_rtr(other);
  one.to_rts();
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ibv_sge segment = one.part(0, 8);
  ASSERT_EQ(one.send(send_request(1, segment)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(other.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
  ibv_ack_async_event(&event);
  other.to_rts();
}

}  // namespace
}  // namespace uroce::verbs_test
