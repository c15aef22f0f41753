#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "ends.h"

// Several contexts of one device, and what becomes of a device's objects that are left when it is closed.

namespace uroce::verbs_test {

/// A side whose objects stay as they lie when the test is over: closed behind their back they cannot be
/// destroyed any more. Known to the end of the process, so that a leak checker finds them.
End& left_behind(size_t device, const EndOptions& options = {}) {
  static auto& all = *new std::vector<End*>;
  return *all.emplace_back(new End(device_at(device), options));
}

bool untouched(const End& end) {
  for (const uint8_t byte : end.memory)
    if (byte != 0) return false;
  return true;
}

TEST(Contexts, ManyOfOneDeviceAreIndependent) {
  const End peer(device_at(1), {});
  const End other_peer(device_at(1), {});
  const End first(device_at(0), {});
  {
    End second(device_at(0), {});
    EXPECT_NE(second.context, first.context);
    second.fill(1);
    connect(second, other_peer);
    ibv_sge segment = second.part(0, 100);
    ASSERT_EQ(second.send(write_request(1, segment, other_peer)), 0);
    EXPECT_EQ(second.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(other_peer.memory[99], second.memory[99]);
  }
  connect(first, peer);
  ibv_sge segment = first.part(0, 100);
  ASSERT_EQ(first.send(write_request(1, segment, peer)), 0);
  EXPECT_EQ(first.next().status, IBV_WC_SUCCESS);
}

TEST(Contexts, ObjectsOfOneAreNotForTheOther) {
  const End one(device_at(0), {});
  const End other(device_at(0), {});
  ibv_qp_init_attr initial{};
  initial.send_cq = one.cq;
  initial.recv_cq = other.cq;
  initial.qp_type = IBV_QPT_RC;
  initial.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  errno = 0;
  EXPECT_EQ(ibv_create_qp(one.pd, &initial), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_comp_channel* channel = ibv_create_comp_channel(other.context);
  ASSERT_NE(channel, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(one.context, 1, nullptr, channel, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

class Closed : public ::testing::Test {
 protected:
  Closed() : owner(left_behind(0, {.with_channel = true})), peer(device_at(1), {}) { connect(owner, peer); }

  End& owner;
  End peer;
};

TEST_F(Closed, APeerFindsNoQueuePairAndMemoryIsNotTouched) {
  peer.fill(7);
  ibv_sge segment = peer.part(0, 1000);
  ASSERT_EQ(peer.send(write_request(1, segment, owner)), 0);
  EXPECT_EQ(peer.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(untouched(owner));
  std::fill(owner.memory.begin(), owner.memory.end(), uint8_t{0});
  ASSERT_EQ(owner.receive(1, owner.all()), 0);

  ASSERT_EQ(ibv_close_device(owner.context), 0);
  ASSERT_EQ(peer.send(write_request(2, segment, owner)), 0);
  EXPECT_EQ(peer.next().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(untouched(owner));
}

TEST_F(Closed, WhatWasUnderWayEndsWithIt) {
  End with_its_own(device_at(0), {});
  End other_peer(device_at(1), {});
  connect(with_its_own, other_peer);
  // Requests that the peer does not take: nothing is posted there.
  ibv_sge segment = owner.part(0, 1000);
  for (uint64_t id = 0; id < 4; ++id) ASSERT_EQ(owner.send(send_request(id, segment)), 0);
  ASSERT_EQ(ibv_close_device(owner.context), 0);
  // Frames that the closed queue pair had sent are on the wire before this one's.
  segment = with_its_own.part(0, 1000);
  ASSERT_EQ(with_its_own.send(write_request(1, segment, other_peer)), 0);
  ASSERT_EQ(with_its_own.next().status, IBV_WC_SUCCESS);
  for (uint64_t id = 0; id < 4; ++id) ASSERT_EQ(peer.receive(id, peer.all()), 0);
  usleep(100'000);  // may be too short to see it fail, never long enough to fail by itself
  EXPECT_TRUE(peer.nothing_to_poll());
}

TEST_F(Closed, AnotherContextGoesOn) {
  End& with_its_own = left_behind(0);
  End other_peer(device_at(1), {});
  connect(with_its_own, other_peer);
  ASSERT_EQ(ibv_close_device(owner.context), 0);
  ibv_sge segment = with_its_own.part(0, 1000);
  ASSERT_EQ(with_its_own.send(write_request(1, segment, other_peer)), 0);
  EXPECT_EQ(with_its_own.next().status, IBV_WC_SUCCESS);
  segment = other_peer.part(0, 1000);
  ASSERT_EQ(other_peer.send(write_request(1, segment, with_its_own)), 0);
  EXPECT_EQ(other_peer.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_close_device(with_its_own.context), 0);
}

TEST_F(Closed, EverythingOfItIsRefused) {
  ibv_srq_init_attr of_srq{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = ibv_create_srq(owner.pd, &of_srq);
  ibv_mw* window = ibv_alloc_mw(owner.pd, IBV_MW_TYPE_2);
  ibv_cq_init_attr_ex of_cq{};
  of_cq.cqe = 4;
  ibv_cq_ex* cq_ex = ibv_create_cq_ex(owner.context, &of_cq);
  ASSERT_TRUE(srq != nullptr && window != nullptr && cq_ex != nullptr);
  ASSERT_EQ(ibv_req_notify_cq(owner.cq, 0), 0);
  ASSERT_EQ(ibv_close_device(owner.context), 0);

  ibv_sge segment = owner.all();
  EXPECT_EQ(owner.send(send_request(1, segment)), EIO);
  EXPECT_EQ(owner.receive(1, segment), EIO);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive, &bad), EIO);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(owner.cq, 1, &completion), -1);
  ibv_poll_cq_attr poll{};
  EXPECT_EQ(ibv_start_poll(cq_ex, &poll), EIO);
  EXPECT_EQ(ibv_req_notify_cq(owner.cq, 0), EIO);
  EXPECT_EQ(ibv_resize_cq(owner.cq, 8), EIO);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(owner.channel, &cq, &cq_context), -1);
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(owner.context, &event), -1);

  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(owner.context, &device), EIO);
  ibv_qp_attr attributes{.qp_state = IBV_QPS_ERR};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_modify_qp(owner.qp, &attributes, IBV_QP_STATE), EIO);
  EXPECT_EQ(ibv_query_qp(owner.qp, &attributes, IBV_QP_STATE, &initial), EIO);
  EXPECT_EQ(ibv_alloc_pd(owner.context), nullptr);
  EXPECT_EQ(ibv_create_cq(owner.context, 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_comp_channel(owner.context), nullptr);
  EXPECT_EQ(ibv_reg_mr(owner.pd, owner.memory.data(), 8, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
  EXPECT_EQ(ibv_create_srq(owner.pd, &of_srq), nullptr);

  EXPECT_EQ(ibv_destroy_qp(owner.qp), EIO);
  EXPECT_EQ(ibv_destroy_srq(srq), EIO);
  EXPECT_EQ(ibv_dealloc_mw(window), EIO);
  EXPECT_EQ(ibv_dereg_mr(owner.mr), EIO);
  EXPECT_EQ(ibv_destroy_cq(owner.cq), EIO);
  EXPECT_EQ(ibv_destroy_comp_channel(owner.channel), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(owner.pd), EIO);
  EXPECT_EQ(ibv_close_device(owner.context), 0) << "once more";
  static auto& lost = *new std::vector<void*>;
  lost.insert(lost.end(), {srq, window, cq_ex});
}

TEST(ClosedMember, OfAGroup) {
  End& member = left_behind(0, {.type = IBV_QPT_UD});
  ibv_qp_attr attributes = init_attributes(0);
  attributes.qkey = 0x11;
  ASSERT_EQ(
      ibv_modify_qp(member.qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  const ibv_gid group{.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3}};
  ASSERT_EQ(ibv_attach_mcast(member.qp, &group, 0), 0);
  EXPECT_EQ(ibv_close_device(member.context), 0);
  EXPECT_EQ(ibv_detach_mcast(member.qp, &group, 0), EIO);
}

}  // namespace uroce::verbs_test
