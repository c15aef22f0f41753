// FLUSH, and ATOMIC WRITE, which is answered like it.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {
namespace {

constexpr int kFlushAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | UROCEDV_ACCESS_FLUSH_GLOBAL;

class Flush : public Connected {
 protected:
  Flush()
      : Connected(
            {.access = kFlushAccess, .operations = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE}) {
    ibv_qp_attr attributes{};
    attributes.qp_access_flags = kFlushAccess & ~IBV_ACCESS_LOCAL_WRITE;
    EXPECT_EQ(ibv_modify_qp(other.qp, &attributes, IBV_QP_ACCESS_FLAGS), 0);
    qp_ = ibv_qp_to_qp_ex(one.qp);
    qp_->wr_flags = IBV_SEND_SIGNALED;
  }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uintptr_t>(other.memory.data()); }
  int flush(size_t length, unsigned type, unsigned level) {
    ibv_wr_start(qp_);
    urocedv_wr_flush(qp_, other.mr->rkey, address(), length, static_cast<uint8_t>(type),
                     static_cast<uint8_t>(level));
    return ibv_wr_complete(qp_);
  }

  ibv_qp_ex* qp_ = nullptr;
};

TEST_F(Flush, AfterAWrite) {
  one.fill(3);
  const ibv_sge from = one.part(0, 5000);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, other.mr->rkey, address());
  ibv_wr_set_sge(qp_, from.lkey, from.addr, from.length);
  urocedv_wr_flush(qp_, other.mr->rkey, address(), 5000, UROCEDV_FLUSH_GLOBAL, UROCEDV_FLUSH_RANGE);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(one.next().opcode, IBV_WC_RDMA_WRITE);
  const ibv_wc done = one.next();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, UROCEDV_WC_FLUSH);
  EXPECT_EQ(std::memcmp(one.memory.data(), other.memory.data(), 5000), 0);
}

TEST_F(Flush, AWholeRegion) {
  ASSERT_EQ(flush(0, UROCEDV_FLUSH_GLOBAL, UROCEDV_FLUSH_MR), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
}

TEST_F(Flush, PersistenceIsNotThere) {
  ASSERT_EQ(flush(8, UROCEDV_FLUSH_GLOBAL | UROCEDV_FLUSH_PERSISTENT, UROCEDV_FLUSH_RANGE), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_INV_REQ_ERR);
  alignas(4096) static std::byte memory[4096];
  EXPECT_EQ(ibv_reg_mr(one.pd, memory, sizeof(memory), UROCEDV_ACCESS_FLUSH_PERSISTENT), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Flush, WrongWishes) {
  EXPECT_EQ(flush(8, 0, UROCEDV_FLUSH_RANGE), EINVAL);
  EXPECT_EQ(flush(8, 4, UROCEDV_FLUSH_RANGE), EINVAL);
  EXPECT_EQ(flush(8, UROCEDV_FLUSH_GLOBAL, 2), EINVAL);
  EXPECT_EQ(flush((size_t{1} << 31) + 1, UROCEDV_FLUSH_GLOBAL, UROCEDV_FLUSH_RANGE), EINVAL);
  EXPECT_TRUE(one.nothing_to_poll());
}

TEST_F(Flush, AnAtomicWriteOfBothInterfaces) {
  const uint64_t value = 0x0102030405060708;
  ibv_wr_start(qp_);
  ibv_wr_atomic_write(qp_, other.mr->rkey, address() + 8, &value);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const ibv_wc done = one.next();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(std::memcmp(&other.memory[8], &value, 8), 0);
  one.fill(5);
  ibv_sge segment = one.part(16, 8);
  ibv_send_wr request = write_request(2, segment, other, 24);
  request.opcode = IBV_WR_ATOMIC_WRITE;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&other.memory[24], &one.memory[16], 8), 0);
  request.wr.rdma.remote_addr += 4;
  ASSERT_EQ(one.send(request), 0);
  EXPECT_EQ(one.next().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Flush, AnAtomicWriteHasItsValueAndNoList) {
  const uint64_t value = 1;
  ibv_sge segment = one.part(0, 8);
  ibv_data_buf piece{.addr = one.memory.data(), .length = 8};
  const std::vector<std::pair<const char*, std::function<void()>>> lists = {
      {"ibv_wr_set_sge", [&] { ibv_wr_set_sge(qp_, segment.lkey, segment.addr, segment.length); }},
      {"ibv_wr_set_sge_list", [&] { ibv_wr_set_sge_list(qp_, 1, &segment); }},
      {"ibv_wr_set_sge_list of none", [&] { ibv_wr_set_sge_list(qp_, 0, nullptr); }},
      {"ibv_wr_set_inline_data", [&] { ibv_wr_set_inline_data(qp_, one.memory.data(), 8); }},
      {"ibv_wr_set_inline_data_list", [&] { ibv_wr_set_inline_data_list(qp_, 1, &piece); }},
  };
  for (const auto& [name, set] : lists) {
    SCOPED_TRACE(name);
    ibv_wr_start(qp_);
    ibv_wr_atomic_write(qp_, other.mr->rkey, address(), &value);
    set();
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  }
  EXPECT_TRUE(one.nothing_to_poll());
}

}  // namespace
}  // namespace uroce::verbs_test
