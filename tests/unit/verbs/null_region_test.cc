// Null regions: they give zeros, and discard what is written.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr size_t kBytes = 300'000;  // more than any run of it
constexpr uint64_t kAnywhere = 0xFEDC'BA98'7654'3210;

class NullRegion : public Connected {
 protected:
  NullRegion() : Connected({.access = kAccess, .bytes = kBytes}), mr(ibv_alloc_null_mr(one.pd)) {
    other.fill(3);
  }
  ~NullRegion() override { EXPECT_EQ(ibv_dereg_mr(mr), 0); }

  [[nodiscard]] ibv_sge null(size_t bytes, uint64_t address = kAnywhere) const {
    return {address, static_cast<uint32_t>(bytes), mr->lkey};
  }
  void expect_done(const ibv_send_wr& request) const {
    ASSERT_EQ(one.send(request), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  }
  [[nodiscard]] bool zeros(const End& end, size_t offset, size_t bytes) const {
    const auto first = end.memory.begin() + static_cast<ptrdiff_t>(offset);
    return std::all_of(first, first + static_cast<ptrdiff_t>(bytes), [](uint8_t byte) { return byte == 0; });
  }

  ibv_mr* mr;
};

TEST_F(NullRegion, HasALocalKeyAloneAndTheGreatestLength) {
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, SIZE_MAX);
  EXPECT_NE(mr->lkey, 0U);
  EXPECT_EQ(mr->rkey, 0U);
  EXPECT_EQ(mr->pd, one.pd);
  EXPECT_EQ(ibv_dealloc_pd(one.pd), EBUSY);
}

/// As a client of perftest with --use-null-mr writes and sends.
TEST_F(NullRegion, IsASourceOfZerosAtAnyAddress) {
  for (const uint64_t address : {uint64_t{0}, kAnywhere, UINT64_MAX - kBytes}) {
    other.fill(3);
    ibv_sge segment = null(kBytes, address);
    expect_done(write_request(1, segment, other));
    EXPECT_TRUE(zeros(other, 0, kBytes)) << address;
  }
  other.fill(3);
  ASSERT_EQ(other.receive(7, other.all()), 0);
  ibv_sge segment = null(5000);
  expect_done(send_request(2, segment));
  EXPECT_EQ(other.next().byte_len, 5000U);
  EXPECT_TRUE(zeros(other, 0, 5000));
  EXPECT_FALSE(zeros(other, 5000, kBytes - 5000));
}

TEST_F(NullRegion, DiscardsWhatIsReadReceivedOrFetched) {
  ibv_sge segment = null(kBytes);
  expect_done(read_request(1, segment, other));
  ASSERT_EQ(one.receive(2, null(kBytes)), 0);
  ibv_sge all = other.all();
  ASSERT_EQ(other.send(send_request(3, all)), 0);
  EXPECT_EQ(other.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.next().byte_len, kBytes);
  ibv_sge word = null(8);
  ibv_send_wr add = send_request(4, word);
  add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  add.wr.atomic.remote_addr = reinterpret_cast<uintptr_t>(other.memory.data() + 64);
  add.wr.atomic.rkey = other.mr->rkey;
  add.wr.atomic.compare_add = 1;
  expect_done(add);
  // Nothing of all that is read again.
  ibv_sge zeros_again = null(kBytes);
  expect_done(write_request(5, zeros_again, other));
  EXPECT_TRUE(zeros(other, 0, kBytes));
}

TEST_F(NullRegion, IsOneSegmentAmongOthers) {
  one.fill(9);
  std::vector<ibv_sge> segments = {one.part(0, 100), null(70'000), one.part(100, 50)};
  ibv_send_wr request = write_request(1, segments.front(), other);
  request.num_sge = 3;
  expect_done(request);
  EXPECT_TRUE(std::equal(one.memory.begin(), one.memory.begin() + 100, other.memory.begin()));
  EXPECT_TRUE(zeros(other, 100, 70'000));
  EXPECT_TRUE(std::equal(one.memory.begin() + 100, one.memory.begin() + 150, other.memory.begin() + 70'100));
}

TEST_F(NullRegion, IsForNoPeer) {
  ibv_mr* const its = ibv_alloc_null_mr(other.pd);
  ASSERT_NE(its, nullptr);
  ibv_sge segment = one.part(0, 8);
  ibv_send_wr request = write_request(1, segment, other);
  request.wr.rdma.remote_addr = 64;
  request.wr.rdma.rkey = its->lkey;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(its), 0);
}

TEST_F(NullRegion, IsOfItsDomainAlone) {
  ibv_pd* const domain = ibv_alloc_pd(one.context);
  ibv_mr* const elsewhere = ibv_alloc_null_mr(domain);
  ASSERT_NE(elsewhere, nullptr);
  ibv_sge segment{0, 8, elsewhere->lkey};
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(elsewhere), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST_F(NullRegion, CannotBeChangedAndHasNoWindows) {
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  ibv_mw* const window = ibv_alloc_mw(one.pd, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_mw_bind bind{
      .wr_id = 1,
      .send_flags = IBV_SEND_SIGNALED,
      .bind_info = {.mr = mr, .addr = 0, .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
  const int error = ibv_bind_mw(one.qp, window, &bind);
  EXPECT_TRUE(error != 0 || one.next().status == IBV_WC_MW_BIND_ERR) << error;
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

}  // namespace
}  // namespace uroce::verbs_test
