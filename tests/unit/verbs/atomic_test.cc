// Atomics as a program posts them.
#include <cerrno>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

constexpr int kAtomicAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class Atomics : public Connected {
 protected:
  Atomics()
      : Connected({.access = kAtomicAccess,
                   .operations = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD}) {}

  static uint64_t& word(End& end, size_t offset) {
    return *reinterpret_cast<uint64_t*>(end.memory.data() + offset);
  }
  [[nodiscard]] uint64_t address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(other.memory.data() + offset);
  }
  /// Compares with or adds `compare_add`.
  ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& segment, uint64_t compare_add, uint64_t swap = 0) const {
    ibv_send_wr made = send_request(1, segment);
    made.opcode = opcode;
    made.wr.atomic.remote_addr = address(64);
    made.wr.atomic.rkey = other.mr->rkey;
    made.wr.atomic.compare_add = compare_add;
    made.wr.atomic.swap = swap;
    return made;
  }
  void expect_done(ibv_wc_opcode opcode) {
    const ibv_wc done = one.next();
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, opcode);
    EXPECT_EQ(done.byte_len, 8U);
  }
};

TEST_F(Atomics, PostedByWorkRequests) {
  word(other, 64) = 40;
  ibv_sge segment = one.part(8, 8);
  ASSERT_EQ(one.send(request(IBV_WR_ATOMIC_FETCH_AND_ADD, segment, 2)), 0);
  expect_done(IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(one, 8), 40U);
  EXPECT_EQ(word(other, 64), 42U);
  ASSERT_EQ(one.send(request(IBV_WR_ATOMIC_CMP_AND_SWP, segment, 41, 7)), 0);
  expect_done(IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(one, 8), 42U);
  EXPECT_EQ(word(other, 64), 42U);
  ASSERT_EQ(one.send(request(IBV_WR_ATOMIC_CMP_AND_SWP, segment, 42, 7)), 0);
  expect_done(IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(other, 64), 7U);
}

TEST_F(Atomics, DescribedOneByOne) {
  word(other, 64) = 1;
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(one.qp);
  const ibv_sge first = one.part(0, 8);
  const ibv_sge second = one.part(8, 8);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_fetch_add(qp, other.mr->rkey, address(64), 4);
  ibv_wr_set_sge(qp, first.lkey, first.addr, first.length);
  ibv_wr_atomic_cmp_swp(qp, other.mr->rkey, address(64), 5, 9);
  ibv_wr_set_sge(qp, second.lkey, second.addr, second.length);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  expect_done(IBV_WC_FETCH_ADD);
  expect_done(IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(one, 0), 1U);
  EXPECT_EQ(word(one, 8), 5U);
  EXPECT_EQ(word(other, 64), 9U);
}

TEST_F(Atomics, ThereIsNoInlineResult) {
  ibv_sge segment = one.part(8, 8);
  ibv_send_wr inline_result = request(IBV_WR_ATOMIC_FETCH_AND_ADD, segment, 2);
  inline_result.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(one.send(inline_result), EINVAL);
}

TEST_F(Atomics, AListOfAnotherLengthFails) {
  ibv_sge segment = one.part(8, 4);
  ASSERT_EQ(one.send(request(IBV_WR_ATOMIC_FETCH_AND_ADD, segment, 2)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(Atomics, AnAddressThatIsNotAlignedIsRefusedByThePeer) {
  ibv_sge segment = one.part(8, 8);
  ibv_send_wr askew = request(IBV_WR_ATOMIC_FETCH_AND_ADD, segment, 2);
  askew.wr.atomic.remote_addr += 4;
  ASSERT_EQ(one.send(askew), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(AtomicRights, TheRegionMustGrantThem) {
  End one(device_at(0), {});
  End other(device_at(1), {});
  connect(one, other);
  ibv_sge segment = one.part(0, 8);
  ibv_send_wr request = send_request(1, segment);
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = reinterpret_cast<uintptr_t>(other.memory.data());
  request.wr.atomic.rkey = other.mr->rkey;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(AtomicRights, TheyNeedLocalWrite) {
  const End end(device_at(0), {});
  alignas(8) uint64_t word = 0;
  EXPECT_EQ(ibv_reg_mr(end.pd, &word, sizeof(word), int{IBV_ACCESS_REMOTE_ATOMIC}), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::verbs_test
