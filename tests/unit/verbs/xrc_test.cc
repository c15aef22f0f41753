// Traffic of XRC as programs make it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "xrc_ends.h"

namespace uroce::verbs_test {

namespace {

constexpr __be32 kImmediate = 0x55667788;

uint64_t& word(std::vector<uint8_t>& memory, size_t offset) {
  return *reinterpret_cast<uint64_t*>(memory.data() + offset);
}

}  // namespace

using Xrc = XrcPair;

TEST_F(Xrc, MessagesReachTheQueueThatTheyName) {
  for (const XrcReceiver* to : {&second, &first, &second}) {
    ASSERT_EQ(to->post(3, 0, 1 << 16), 0);
    client.fill(static_cast<uint8_t>(to->number()));
    ibv_sge segment = client.part(0, 50000);
    ibv_send_wr send = request(IBV_WR_SEND_WITH_IMM, segment, *to);
    send.imm_data = kImmediate;
    expect_outcome(send, IBV_WC_SUCCESS);
    const ibv_wc received = to->next();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.wr_id, 3U);
    EXPECT_EQ(received.byte_len, 50000U);
    EXPECT_EQ(received.imm_data, kImmediate);
    EXPECT_EQ(received.qp_num, target->qp_num);
    EXPECT_EQ(received.src_qp, client.qp->qp_num);
    EXPECT_TRUE(std::equal(&client.memory[0], &client.memory[50000], &to->memory[0]));
  }
  EXPECT_TRUE(first.nothing_to_poll());
  EXPECT_TRUE(second.nothing_to_poll());
}

TEST_F(Xrc, MemoryIsWrittenAndReadWithTheKeysOfTheQueueThatIsNamed) {
  for (XrcReceiver* to : {&first, &second, &first}) {
    client.fill(static_cast<uint8_t>(to->number() + 3));
    ibv_sge segment = client.part(0, 30000);
    expect_outcome(request(IBV_WR_RDMA_WRITE, segment, *to), IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(&client.memory[0], &client.memory[30000], &to->memory[0]));

    ASSERT_EQ(to->post(4, 0, 0), 0);
    ibv_send_wr write = request(IBV_WR_RDMA_WRITE_WITH_IMM, segment, *to);
    write.imm_data = kImmediate;
    expect_outcome(write, IBV_WC_SUCCESS);
    const ibv_wc received = to->next();
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.imm_data, kImmediate);

    std::fill(client.memory.begin(), client.memory.end(), 0);
    expect_outcome(request(IBV_WR_RDMA_READ, segment, *to), IBV_WC_SUCCESS);
    EXPECT_TRUE(std::equal(&client.memory[0], &client.memory[30000], &to->memory[0]));

    word(to->memory, 0) = 40;
    ibv_sge result = client.part(64, 8);
    ibv_send_wr atomic = request(IBV_WR_ATOMIC_FETCH_AND_ADD, result, *to);
    atomic.wr.atomic.compare_add = 2;
    expect_outcome(atomic, IBV_WC_SUCCESS);
    EXPECT_EQ(word(client.memory, 64), 40U);
    atomic.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    atomic.wr.atomic.compare_add = 42;
    atomic.wr.atomic.swap = 7;
    expect_outcome(atomic, IBV_WC_SUCCESS);
    EXPECT_EQ(word(client.memory, 64), 42U);
    EXPECT_EQ(word(to->memory, 0), 7U);
  }
}

TEST_F(Xrc, ManyRequestsToBothQueuesAtOnce) {
  constexpr uint32_t kMessages = 8;
  for (uint64_t i = 0; i < kMessages / 2; ++i) {
    ASSERT_EQ(first.post(i, i * 4000, 4000), 0);
    ASSERT_EQ(second.post(i, i * 4000, 4000), 0);
  }
  client.fill(1);
  ibv_sge segments[kMessages];
  ibv_send_wr requests[kMessages];
  for (uint32_t i = 0; i < kMessages; ++i) {
    segments[i] = client.part(i * 1000, 4000);
    requests[i] = request(IBV_WR_SEND, segments[i], i % 2 == 0 ? first : second);
    requests[i].next = i + 1 < kMessages ? &requests[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(client.qp, requests, &bad), 0);
  for (uint32_t i = 0; i < kMessages; ++i) EXPECT_EQ(client.next().status, IBV_WC_SUCCESS);
  for (uint32_t i = 0; i < kMessages; ++i) {
    const XrcReceiver& to = i % 2 == 0 ? first : second;
    EXPECT_EQ(to.next().wr_id, i / 2);
    EXPECT_TRUE(
        std::equal(&client.memory[i * 1000], &client.memory[i * 1000 + 4000], &to.memory[i / 2 * 4000]));
  }
}

TEST_F(Xrc, TwoInitiatorsShareAQueue) {
  const End another(device_at(0), xrc_initiator());
  ibv_qp* const its_target = create_xrc_target(server.context, server.xrcd);
  join(another, its_target);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(first.post(i, i * 100, 100), 0);
  for (uint64_t i = 0; i < 4; ++i) {
    const End& from = i % 2 == 0 ? another : client;
    ibv_sge segment = from.part(0, 10);
    ASSERT_EQ(from.send(to_receiver(send_request(1, segment), first.number())), 0);
    EXPECT_EQ(from.next().status, IBV_WC_SUCCESS);
    const ibv_wc received = first.next();
    EXPECT_EQ(received.wr_id, i);
    EXPECT_EQ(received.qp_num, (i % 2 == 0 ? its_target : target)->qp_num);
    EXPECT_EQ(received.src_qp, from.qp->qp_num);
  }
  EXPECT_EQ(ibv_destroy_qp(its_target), 0);
}

TEST_F(Xrc, AnEmptyQueueMakesItsSendersWait) {
  ibv_sge segment = client.part(0, 10);
  ASSERT_EQ(client.send(request(IBV_WR_SEND, segment, first)), 0);
  EXPECT_TRUE(first.nothing_to_poll());
  ASSERT_EQ(first.post(9, 0, 10), 0);
  EXPECT_EQ(client.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(first.next().wr_id, 9U);
}

TEST_F(Xrc, AQueueTellsWhenItRunsLow) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(first.post(i, 0, 10), 0);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(first.srq, &attributes, IBV_SRQ_LIMIT), 0);
  ibv_sge segment = client.part(0, 10);
  expect_outcome(request(IBV_WR_SEND, segment, first), IBV_WC_SUCCESS);
  expect_events({IBV_EVENT_COMM_EST, IBV_EVENT_SRQ_LIMIT_REACHED});
}

TEST_F(Xrc, AKeyOfTheOtherQueuesDomainIsRefused) {
  ibv_sge segment = client.part(0, 10);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, segment, first);
  write.qp_type.xrc.remote_srqn = second.number();
  expect_outcome(write, IBV_WC_REM_ACCESS_ERR);
  expect_events({IBV_EVENT_COMM_EST, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED});
}

TEST_F(Xrc, ANumberOfNoQueuePairIsRefused) {
  ibv_sge segment = client.part(0, 10);
  expect_outcome(to_receiver(request(IBV_WR_SEND, segment, first), 0xFFFFFF), IBV_WC_REM_INV_REQ_ERR);
  expect_events({IBV_EVENT_COMM_EST, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_LAST_WQE_REACHED});
}

TEST_F(Xrc, ANumberOfAnotherXrcDomainIsRefused) {
  ibv_xrcd* const other = open_xrc_domain(server.context);
  {
    const XrcReceiver theirs(server.context, other);
    ASSERT_EQ(theirs.post(1, 0, 100), 0);
    ibv_sge segment = client.part(0, 10);
    expect_outcome(to_receiver(request(IBV_WR_SEND, segment, first), theirs.number()),
                   IBV_WC_REM_INV_REQ_ERR);
    EXPECT_TRUE(theirs.nothing_to_poll());
  }
  EXPECT_EQ(ibv_close_xrcd(other), 0);
}

TEST_F(Xrc, AQueueThatIsDestroyedIsNoLongerThereForThoseWhoWait) {
  ASSERT_EQ(first.post(1, 0, 100), 0);
  ibv_sge segment = client.part(0, 10);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(client.send(request(IBV_WR_SEND, segment, first)), 0);
  EXPECT_EQ(client.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(first.next().wr_id, 1U);
  first.destroy_queue();
  EXPECT_EQ(client.next().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(client.next().status, IBV_WC_WR_FLUSH_ERR);
}

/// Until it is gone its messages arrive; each of its receives completes at most once, and what is posted to
/// the other queue stays there.
TEST_F(Xrc, AQueueIsDestroyedUnderTraffic) {
  ASSERT_EQ(second.post(1, 0, 100), 0);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(first.post(i, 0, 10000), 0);
  std::thread sender([this] {
    ibv_sge segment = client.part(0, 10000);
    const ibv_send_wr send = request(IBV_WR_SEND, segment, first);
    for (ibv_wc_status status = IBV_WC_SUCCESS; status == IBV_WC_SUCCESS; status = client.next().status)
      if (client.send(send) != 0) return;
  });
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(first.next().wr_id, i);
  first.destroy_queue();
  sender.join();
  EXPECT_EQ(client.state(), IBV_QPS_ERR);
  EXPECT_TRUE(second.nothing_to_poll());
}

class XrcByBuilder : public XrcPair {
 protected:
  static constexpr uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                                          IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;

  static ibv_qp* create(ibv_pd* pd, ibv_qp_init_attr* initial) {
    ibv_qp_init_attr_ex wanted{};
    std::memcpy(&wanted, initial, sizeof(*initial));
    wanted.recv_cq = nullptr;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = pd;
    wanted.send_ops_flags = kOperations;
    return ibv_create_qp_ex(pd->context, &wanted);
  }
  static EndOptions options() {
    EndOptions options = xrc_initiator();
    options.access |= IBV_ACCESS_MW_BIND;
    options.create_qp = create;
    return options;
  }
  XrcByBuilder() { join(extended, its_target); }
  ~XrcByBuilder() override { EXPECT_EQ(ibv_destroy_qp(its_target), 0); }

  /// Posts what `describe` builds.
  template <typename Describe>
  int build(Describe describe) {
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    describe();
    return ibv_wr_complete(qp);
  }
  /// The same, about 8 bytes, to the first queue.
  template <typename Describe>
  void expect_success(Describe describe, ibv_wc_opcode opcode) {
    ASSERT_EQ(build([&] {
                describe();
                ibv_wr_set_xrc_srqn(qp, first.number());
                ibv_wr_set_sge(qp, extended.mr->lkey, extended.part(0, 8).addr, 8);
              }),
              0);
    const ibv_wc done = extended.next();
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, opcode);
  }

  End extended{device_at(0), options()};
  ibv_qp* its_target = create_xrc_target(server.context, server.xrcd);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(extended.qp);
};

TEST_F(XrcByBuilder, MakesEveryRequest) {
  const uint32_t rkey = first.mr->rkey;
  const uint64_t address = first.address(0);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(first.post(i, 64, 100), 0);
  extended.fill(1);
  expect_success([&] { ibv_wr_rdma_write(qp, rkey, address); }, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(std::equal(&extended.memory[0], &extended.memory[8], &first.memory[0]));
  expect_success([&] { ibv_wr_rdma_write_imm(qp, rkey, address, kImmediate); }, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(first.next().imm_data, kImmediate);
  expect_success([&] { ibv_wr_send(qp); }, IBV_WC_SEND);
  EXPECT_EQ(first.next().byte_len, 8U);
  expect_success([&] { ibv_wr_send_imm(qp, kImmediate); }, IBV_WC_SEND);
  EXPECT_EQ(first.next().imm_data, kImmediate);
  word(first.memory, 0) = 5;
  expect_success([&] { ibv_wr_rdma_read(qp, rkey, address); }, IBV_WC_RDMA_READ);
  EXPECT_EQ(word(extended.memory, 0), 5U);
  expect_success([&] { ibv_wr_atomic_fetch_add(qp, rkey, address, 1); }, IBV_WC_FETCH_ADD);
  expect_success([&] { ibv_wr_atomic_cmp_swp(qp, rkey, address, 6, 9); }, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(extended.memory, 0), 6U);
  EXPECT_EQ(word(first.memory, 0), 9U);
}

TEST_F(XrcByBuilder, ARequestMustNameAQueue) {
  const auto send = [&](bool named, uint32_t number) {
    return build([&] {
      ibv_wr_send(qp);
      if (named) ibv_wr_set_xrc_srqn(qp, number);
      ibv_wr_set_sge(qp, extended.mr->lkey, extended.part(0, 8).addr, 8);
    });
  };
  EXPECT_EQ(send(false, 0), EINVAL);
  EXPECT_EQ(send(true, 0), EINVAL);
  EXPECT_EQ(send(true, 1 << 24), EINVAL);
  EXPECT_TRUE(extended.nothing_to_poll());
  ASSERT_EQ(first.post(1, 0, 8), 0);
  EXPECT_EQ(send(true, first.number()), 0);
  EXPECT_EQ(extended.next().status, IBV_WC_SUCCESS);
}

TEST_F(XrcByBuilder, WindowsAreBoundAndEndedWithoutNamingAQueue) {
  ibv_mw* const window = ibv_alloc_mw(extended.pd, IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  const ibv_mw_bind_info info{extended.mr, extended.part(0, 8).addr, 8, IBV_ACCESS_REMOTE_READ};
  const uint32_t key = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(build([&] { ibv_wr_bind_mw(qp, window, key, &info); }), 0);
  EXPECT_EQ(extended.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(build([&] { ibv_wr_local_inv(qp, key); }), 0);
  EXPECT_EQ(extended.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

TEST_F(XrcByBuilder, AKeyThatMayNotBeInvalidatedIsRefused) {
  ASSERT_EQ(first.post(1, 0, 8), 0);
  ASSERT_EQ(build([&] {
              ibv_wr_send_inv(qp, first.mr->rkey);
              ibv_wr_set_xrc_srqn(qp, first.number());
              ibv_wr_set_sge(qp, extended.mr->lkey, extended.part(0, 8).addr, 8);
            }),
            0);
  EXPECT_EQ(extended.next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(first.next().status, IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace uroce::verbs_test
