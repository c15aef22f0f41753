#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "ends.h"

namespace uroce::verbs_test {

class Events : public Connected {
 protected:
  Events() : Connected({.with_channel = true}) {}

  /// Makes the channel's descriptor one that does not wait, as the man page shows.
  static void do_not_wait(int fd) { ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

  /// Waits for the event of the other end's queue and acknowledges it.
  void expect_event() const {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(other.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq, other.cq);
    EXPECT_EQ(cq_context, &other);
    ibv_ack_cq_events(cq, 1);
  }
  [[nodiscard]] bool no_event() const {
    pollfd entry{other.channel->fd, POLLIN, 0};
    return poll(&entry, 1, 0) == 0;
  }
  void send_one(uint64_t id, unsigned int flags = 0) {
    ibv_sge segment = one.part(0, 8);
    ibv_send_wr request = send_request(id, segment);
    request.send_flags |= flags;
    ASSERT_EQ(one.send(request), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  }
};

TEST_F(Events, AnArmedQueueTellsOfTheNextCompletionOnce) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(other.receive(i, other.all()), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
  EXPECT_TRUE(no_event());
  send_one(1);
  expect_event();
  send_one(2);
  EXPECT_EQ(other.next().wr_id, 0U);
  EXPECT_EQ(other.next().wr_id, 1U);
  EXPECT_TRUE(no_event()) << "it was not armed again";
}

TEST_F(Events, WhoPollsOnceForEachEventGetsEverything) {
  constexpr uint64_t kMessages = 5;
  for (uint64_t i = 0; i < kMessages; ++i) ASSERT_EQ(other.receive(i, other.all()), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
  for (uint64_t i = 0; i < kMessages; ++i) send_one(i);
  for (uint64_t i = 0; i < kMessages; ++i) {
    expect_event();
    ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
    ibv_wc completion{};
    ASSERT_EQ(ibv_poll_cq(other.cq, 1, &completion), 1);
    EXPECT_EQ(completion.wr_id, i);
  }
  EXPECT_TRUE(no_event());
}

TEST_F(Events, SolicitedOnlyWaitsForASolicitedOne) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(other.receive(i, other.all()), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 1), 0);
  send_one(1);
  EXPECT_EQ(other.next().wr_id, 0U);
  EXPECT_TRUE(no_event());
  send_one(2, IBV_SEND_SOLICITED);
  expect_event();
}

TEST_F(Events, AnErrorIsSolicited) {
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 1), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(other.qp, &error, IBV_QP_STATE), 0);
  expect_event();
  EXPECT_EQ(other.next().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Events, ADescriptorThatDoesNotWaitSaysEagain) {
  do_not_wait(other.channel->fd);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(other.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  do_not_wait(other.context->async_fd);
  ibv_async_event event{};
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(other.context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Events, NoneIsLostBetweenArmingAndPolling) {
  // The receiver sleeps whenever arm, then poll finds nothing; a lost event would leave it there.
  constexpr uint64_t kMessages = 3000;
  std::thread receiver([&] {
    uint64_t received = 0;
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(other.receive(i, other.part(0, 64)), 0);
    while (received < kMessages) {
      ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
      ibv_wc batch[8];
      int got = 0;
      bool any = false;
      while ((got = ibv_poll_cq(other.cq, 8, batch)) > 0) {
        any = true;
        for (int i = 0; i < got; ++i) {
          ASSERT_EQ(batch[i].status, IBV_WC_SUCCESS);
          ++received;
          ASSERT_EQ(other.receive(received, other.part(0, 64)), 0);
        }
      }
      ASSERT_EQ(got, 0);
      if (!any) expect_event();
    }
  });
  for (uint64_t i = 0; i < kMessages; ++i) send_one(i);
  receiver.join();
}

TEST_F(Events, DestroyingTheQueueTakesItsUnreadEventsAlong) {
  // A second queue on the same channel: its event must survive.
  ibv_cq* second = ibv_create_cq(other.context, 4, nullptr, other.channel, 0);
  ASSERT_NE(second, nullptr);
  ibv_qp_init_attr initial{};
  initial.send_cq = second;
  initial.recv_cq = second;
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {1, 1, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(other.pd, &initial);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr init = init_attributes(0);
  ASSERT_EQ(ibv_modify_qp(qp, &init, kInitMask), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ASSERT_EQ(ibv_req_notify_cq(second, 0), 0);
  ASSERT_EQ(other.receive(1, other.all()), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.cq, 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_modify_qp(other.qp, &error, IBV_QP_STATE), 0);
  ibv_wc flushed{};
  while (ibv_poll_cq(second, 1, &flushed) == 0) {
  }
  (void)other.next();

  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ASSERT_EQ(ibv_destroy_cq(second), 0);
  expect_event();
  EXPECT_TRUE(no_event());
}

TEST_F(Events, DestroyingTheQueueWaitsForAcknowledgements) {
  ibv_cq* second = ibv_create_cq(other.context, 4, nullptr, other.channel, 0);
  ASSERT_NE(second, nullptr);
  ibv_qp_init_attr initial{};
  initial.send_cq = second;
  initial.recv_cq = second;
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {1, 1, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(other.pd, &initial);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr init = init_attributes(0);
  ASSERT_EQ(ibv_modify_qp(qp, &init, kInitMask), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  ASSERT_EQ(ibv_req_notify_cq(second, 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
  ibv_cq* from = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(other.channel, &from, &cq_context), 0);
  ASSERT_EQ(from, second);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  std::atomic<bool> acknowledged{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(second), 0);
    EXPECT_TRUE(acknowledged.load());
  });
  // Whether the other thread is already waiting or not, it must not get past before this.
  acknowledged = true;
  ibv_ack_cq_events(second, 1);
  destroyer.join();
}

TEST(Overrun, OfACompletionQueueIsAnEventAndAnError) {
  End one(device_at(0), {.completions = 1, .depth = 8});
  one.to_init();
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(one.receive(i, one.all()), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(one.qp, &error, IBV_QP_STATE), 0);
  // There is one place for eight flushed requests. The event says so before the queue is polled.
  pollfd events{.fd = one.context->async_fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&events, 1, 60'000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(one.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, one.cq);
  ibv_ack_async_event(&event);
  ibv_wc completion{};
  int got = 0;
  while ((got = ibv_poll_cq(one.cq, 1, &completion)) >= 0) {
  }
  EXPECT_LT(got, 0);
  EXPECT_EQ(fcntl(one.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(ibv_get_async_event(one.context, &event), -1) << "there is one event";
}

}  // namespace uroce::verbs_test
