// The life of the objects of XRC, and what cannot be made of them.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "xrc_ends.h"

namespace uroce::verbs_test {

namespace {

constexpr uint32_t kWholeSrq =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
constexpr uint32_t kWholeOpen = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};

class XrcObjects : public ::testing::Test {
 protected:
  ibv_qp* open_target(uint32_t number, ibv_xrcd* xrcd, void* qp_context = nullptr) const {
    ibv_qp_open_attr wanted{};
    wanted.comp_mask = kWholeOpen | IBV_QP_OPEN_ATTR_CONTEXT;
    wanted.qp_num = number;
    wanted.xrcd = xrcd;
    wanted.qp_context = qp_context;
    wanted.qp_type = IBV_QPT_XRC_RECV;
    return ibv_open_qp(server.context, &wanted);
  }
  void expect_event(ibv_event_type type, const ibv_qp* qp) const {
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(server.context, &event), 0);
    EXPECT_EQ(event.event_type, type);
    EXPECT_EQ(event.element.qp, qp);
    ibv_ack_async_event(&event);
  }

  XrcServer server{device_at(1)};
};

}  // namespace

TEST_F(XrcObjects, TheDomainOfAFileIsOneHoweverOftenItIsOpened) {
  const std::unique_ptr<FILE, CloseFile> file(std::tmpfile());
  const std::unique_ptr<FILE, CloseFile> other_file(std::tmpfile());
  const int fd = fileno(file.get());
  EXPECT_EQ(open_xrc_domain(server.context, fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "there is none yet";
  ibv_xrcd* const one = open_xrc_domain(server.context, fd, O_CREAT | O_EXCL);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(open_xrc_domain(server.context, fd, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const int again = dup(fd);
  ibv_xrcd* const two = open_xrc_domain(server.context, again, 0);
  ASSERT_NE(two, nullptr);
  close(again);
  ibv_xrcd* const elsewhere = open_xrc_domain(server.context, fileno(other_file.get()));
  ASSERT_NE(elsewhere, nullptr);

  ibv_qp* const made = create_xrc_target(server.context, one);
  ibv_qp* const opened = open_target(made->qp_num, two);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(open_target(made->qp_num, elsewhere), nullptr);
  EXPECT_EQ(ibv_close_xrcd(one), EBUSY);
  EXPECT_EQ(ibv_close_xrcd(two), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(made), 0);
  EXPECT_EQ(ibv_close_xrcd(one), 0);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_close_xrcd(two), 0);
  EXPECT_EQ(ibv_close_xrcd(elsewhere), 0);
  EXPECT_EQ(open_xrc_domain(server.context, fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "it went with its last handle";
}

TEST_F(XrcObjects, ADomainOfNoFileIsPrivate) {
  ibv_xrcd* const other = open_xrc_domain(server.context, -1, 0);
  ASSERT_NE(other, nullptr);
  ibv_qp* const made = create_xrc_target(server.context, other);
  EXPECT_EQ(open_target(made->qp_num, server.xrcd), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_qp(made), 0);
  EXPECT_EQ(ibv_close_xrcd(other), 0);
}

TEST_F(XrcObjects, WhatIsInUseStays) {
  ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
  EXPECT_EQ(ibv_close_xrcd(server.xrcd), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  const XrcReceiver receiver(server.context, server.xrcd);
  EXPECT_EQ(ibv_close_xrcd(server.xrcd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receiver.cq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(receiver.pd), EBUSY);
}

TEST_F(XrcObjects, QueuesHaveNumbersOfTheirOwn) {
  const XrcReceiver one(server.context, server.xrcd);
  const XrcReceiver other(server.context, server.xrcd);
  EXPECT_NE(one.number(), other.number());
  EXPECT_LT(one.number(), 1U << 24);
  ibv_srq_init_attr plain{};
  plain.attr.max_wr = plain.attr.max_sge = 1;
  ibv_srq* const srq = ibv_create_srq(one.pd, &plain);
  ASSERT_NE(srq, nullptr);
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), EINVAL) << "no packet can name it";
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(XrcObjects, ATargetHasNothingOfItsOwn) {
  ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
  EXPECT_EQ(target->pd, nullptr);
  EXPECT_EQ(target->send_cq, nullptr);
  EXPECT_EQ(target->recv_cq, nullptr);
  EXPECT_EQ(target->srq, nullptr);
  EXPECT_EQ(target->state, IBV_QPS_RESET);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(target, &attributes, IBV_QP_STATE, &initial), 0);
  EXPECT_EQ(initial.qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(initial.cap.max_send_wr + initial.cap.max_recv_wr, 0U);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

/// Programs set up either half of a connection with what a whole one needs. What a half has no use for is not
/// looked at, even if it could not be; the rest is what it was.
TEST_F(XrcObjects, EitherHalfTakesTheAttributesOfAWhole) {
  const End client(device_at(0), xrc_initiator());
  ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
  for (ibv_qp* const qp : {client.qp, target}) {
    const bool sends = qp == client.qp;
    ibv_qp_attr attributes = init_attributes(0);
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), 0);
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(qp->context, 1, kGidIndex, &gid), 0);
    attributes = rtr_attributes(qp->context, 2, gid);
    if (sends) attributes.min_rnr_timer = attributes.max_dest_rd_atomic = 0xFF;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kRtrMask), 0);
    attributes = rts_attributes();
    if (!sends) attributes.retry_cnt = attributes.rnr_retry = attributes.max_rd_atomic = 0xFF;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, kRtsMask), 0);
    EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_QKEY), EINVAL) << "not anything goes";
  }
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

TEST_F(XrcObjects, ATargetIsSharedByItsHandlesAndGoesWithTheLast) {
  ibv_qp* const made = create_xrc_target(server.context, server.xrcd);
  ibv_qp* const opened = open_target(made->qp_num, server.xrcd, this);
  ASSERT_NE(opened, nullptr);
  EXPECT_NE(opened, made);
  EXPECT_EQ(opened->qp_num, made->qp_num);
  EXPECT_EQ(opened->qp_context, this);
  EXPECT_EQ(opened->qp_type, IBV_QPT_XRC_RECV);

  // What one does, the other sees.
  const End client(device_at(0), xrc_initiator());
  join(client, made);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(opened, &attributes, IBV_QP_STATE | IBV_QP_AV, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(opened->state, IBV_QPS_RTR);
  EXPECT_EQ(attributes.dest_qp_num, client.qp->qp_num);
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, kGidIndex);

  EXPECT_EQ(ibv_destroy_qp(made), 0);
  const XrcReceiver receiver(server.context, server.xrcd);
  ASSERT_EQ(receiver.post(1, 0, 10), 0);
  ibv_sge segment = client.part(0, 10);
  ASSERT_EQ(client.send(to_receiver(send_request(1, segment), receiver.number())), 0);
  EXPECT_EQ(client.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(receiver.next().qp_num, opened->qp_num);

  const uint32_t number = opened->qp_num;
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(open_target(number, server.xrcd), nullptr);
}

TEST_F(XrcObjects, EveryHandleOfATargetHearsOfItsEvents) {
  ibv_qp* const made = create_xrc_target(server.context, server.xrcd);
  ibv_qp* const opened = open_target(made->qp_num, server.xrcd);
  ibv_qp* const silent = open_target(made->qp_num, server.xrcd);
  EXPECT_EQ(ibv_destroy_qp(silent), 0);
  const End client(device_at(0), xrc_initiator());
  join(client, opened);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(opened, &attributes, IBV_QP_STATE), 0);
  expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, made);
  expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, opened);
  EXPECT_EQ(ibv_destroy_qp(made), 0);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
}

/// Without a word to what was made with it: a target goes with the last context that has a handle to it.
TEST_F(XrcObjects, ClosingADeviceGivesUpItsHandles) {
  const std::unique_ptr<FILE, CloseFile> file(std::tmpfile());
  ibv_context* const other = ibv_open_device(device_at(1));
  ibv_xrcd* const theirs = open_xrc_domain(other, fileno(file.get()));
  ibv_qp* const shared = create_xrc_target(other, theirs);
  ibv_qp* const lonely = create_xrc_target(other, theirs);
  // They stay as they lie, which is no leak.
  static auto& left_behind = *new std::vector<const void*>;
  left_behind = {other, theirs, shared, lonely};
  const uint32_t gone = lonely->qp_num;
  ibv_xrcd* const ours = open_xrc_domain(server.context, fileno(file.get()), 0);
  ASSERT_NE(ours, nullptr);
  ibv_qp* const opened = open_target(shared->qp_num, ours);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(ibv_close_device(other), 0);
  EXPECT_EQ(ibv_destroy_qp(shared), EIO);
  EXPECT_EQ(ibv_close_xrcd(theirs), EIO);

  EXPECT_EQ(open_target(gone, ours), nullptr);
  const End client(device_at(0), xrc_initiator());
  join(client, opened);
  {
    const XrcReceiver receiver(server.context, ours);
    ASSERT_EQ(receiver.post(1, 0, 10), 0);
    ibv_sge segment = client.part(0, 10);
    ASSERT_EQ(client.send(to_receiver(send_request(1, segment), receiver.number())), 0);
    EXPECT_EQ(client.next().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_close_xrcd(ours), 0);
}

TEST_F(XrcObjects, EachDirectionRefusesTheOther) {
  const End client(device_at(0), xrc_initiator());
  ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
  join(client, target);
  EXPECT_EQ(client.receive(1, client.all()), EINVAL);
  ibv_sge segment = client.part(0, 8);
  ibv_send_wr send = send_request(1, segment);
  EXPECT_EQ(client.send(send), EINVAL) << "it names no queue";
  EXPECT_EQ(client.send(to_receiver(send, 1 << 24)), EINVAL);
  EXPECT_EQ(client.send([&] {
    ibv_send_wr write = to_receiver(send, 1);
    write.opcode = IBV_WR_ATOMIC_WRITE;
    return write;
  }()),
            EINVAL)
      << "XRC has no opcode for it";
  ibv_qp_attr attributes = rts_attributes();
  ASSERT_EQ(ibv_modify_qp(target, &attributes, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN), 0);
  ibv_send_wr* bad = nullptr;
  send = to_receiver(send, 1);
  EXPECT_EQ(ibv_post_send(target, &send, &bad), EINVAL);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(target, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

/// What is wrong, and what is said of it.
TEST_F(XrcObjects, Mistakes) {
  const XrcReceiver good(server.context, server.xrcd);
  const XrcServer stranger(device_at(0));
  const auto refusal_of_queue = [&](const std::function<void(ibv_srq_init_attr_ex&)>& change) {
    ibv_srq_init_attr_ex wanted{};
    wanted.attr.max_wr = wanted.attr.max_sge = 1;
    wanted.comp_mask = kWholeSrq;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = good.pd;
    wanted.xrcd = server.xrcd;
    wanted.cq = good.cq;
    change(wanted);
    EXPECT_EQ(ibv_create_srq_ex(server.context, &wanted), nullptr);
    return errno;
  };
  for (const uint32_t missing : {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ})
    EXPECT_EQ(refusal_of_queue([&](auto& w) { w.comp_mask &= ~missing; }), EINVAL) << missing;
  EXPECT_EQ(refusal_of_queue([](auto& w) { w.comp_mask |= 1U << 20; }), EOPNOTSUPP);
  EXPECT_EQ(refusal_of_queue([](auto& w) { w.srq_type = IBV_SRQT_TM; }), EOPNOTSUPP);
  EXPECT_EQ(refusal_of_queue([](auto& w) { w.attr.max_wr = 0; }), EINVAL);
  EXPECT_EQ(refusal_of_queue([&](auto& w) { w.xrcd = stranger.xrcd; }), EINVAL);

  const auto refusal_of_pair = [&](const std::function<void(ibv_qp_init_attr_ex&)>& change) {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_XRC_RECV;
    wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    wanted.xrcd = server.xrcd;
    wanted.send_cq = wanted.recv_cq = good.cq;
    wanted.pd = good.pd;
    wanted.cap = {1, 1, 1, 1, 0};
    change(wanted);
    EXPECT_EQ(ibv_create_qp_ex(server.context, &wanted), nullptr);
    return errno;
  };
  EXPECT_EQ(refusal_of_pair([](auto& w) { w.comp_mask = IBV_QP_INIT_ATTR_PD; }), EINVAL);
  EXPECT_EQ(refusal_of_pair([](auto& w) { w.xrcd = nullptr; }), EINVAL);
  EXPECT_EQ(refusal_of_pair([&](auto& w) { w.xrcd = stranger.xrcd; }), EINVAL);
  EXPECT_EQ(refusal_of_pair([](auto& w) {
              w.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
              w.send_ops_flags = IBV_QP_EX_WITH_SEND;
            }),
            EOPNOTSUPP)
      << "it sends nothing";
  EXPECT_EQ(refusal_of_pair([](auto& w) { w.qp_type = IBV_QPT_XRC_SEND; }), EINVAL) << "it has no XRC domain";
  EXPECT_EQ(refusal_of_pair([&](auto& w) {
              w.qp_type = IBV_QPT_RC;
              w.comp_mask = IBV_QP_INIT_ATTR_PD;
              w.srq = good.srq;
            }),
            EINVAL)
      << "its receives are for requests that name it";

  ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
  const auto refusal_of_open = [&](const std::function<void(ibv_qp_open_attr&)>& change) {
    ibv_qp_open_attr wanted{};
    wanted.comp_mask = kWholeOpen;
    wanted.qp_num = target->qp_num;
    wanted.xrcd = server.xrcd;
    wanted.qp_type = IBV_QPT_XRC_RECV;
    change(wanted);
    EXPECT_EQ(ibv_open_qp(server.context, &wanted), nullptr);
    return errno;
  };
  for (const uint32_t missing : {IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD, IBV_QP_OPEN_ATTR_TYPE})
    EXPECT_EQ(refusal_of_open([&](auto& w) { w.comp_mask &= ~missing; }), EINVAL) << missing;
  EXPECT_EQ(refusal_of_open([](auto& w) { w.comp_mask |= 1U << 20; }), EOPNOTSUPP);
  EXPECT_EQ(refusal_of_open([](auto& w) { w.qp_num ^= 1 << 16; }), EINVAL);
  EXPECT_EQ(refusal_of_open([](auto& w) { w.qp_type = IBV_QPT_RC; }), EINVAL);
  EXPECT_EQ(refusal_of_open([&](auto& w) { w.xrcd = stranger.xrcd; }), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(target), 0);

  ibv_xrcd_init_attr domain{};
  domain.fd = -1;
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD;
  EXPECT_EQ(ibv_open_xrcd(server.context, &domain), nullptr);
  EXPECT_EQ(errno, EINVAL);
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | IBV_XRCD_INIT_ATTR_RESERVED;
  EXPECT_EQ(ibv_open_xrcd(server.context, &domain), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(open_xrc_domain(server.context, 1 << 20), nullptr);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace uroce::verbs_test
