// Memory windows of every type between two devices: what a peer can do with one, which queue pair may bind it
// to what, and what ends it. (What the key table itself refuses: tests/unit/mem/window_test.cc.)
#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ends.h"
#include "window_pair.h"

namespace uroce::verbs_test {

namespace {

class Window : public ::testing::TestWithParam<urocedv_mw_type> {
 protected:
  Pair pair{GetParam()};
  [[nodiscard]] static bool type1() { return GetParam() == UROCEDV_MW_TYPE_1; }
  /// What a peer gets that writes through the window by another queue pair of the owner's domain.
  void expect_another(ibv_wc_status expected) {
    End third(device_at(0), {});
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = pair.owner.cq;
    initial.cap.max_send_wr = initial.cap.max_recv_wr = 4;
    initial.cap.max_send_sge = initial.cap.max_recv_sge = 1;
    initial.qp_type = IBV_QPT_RC;
    ibv_qp* second = ibv_create_qp(pair.owner.pd, &initial);
    ASSERT_NE(second, nullptr);
    std::swap(pair.owner.qp, second);
    connect(third, pair.owner);
    std::swap(pair.owner.qp, second);
    EXPECT_EQ(pair.access(third, IBV_WR_RDMA_WRITE, pair.address(kOffset), 1, pair.window->rkey), expected);
    EXPECT_EQ(ibv_destroy_qp(second), 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, Window,
                         ::testing::Values(UROCEDV_MW_TYPE_1, UROCEDV_MW_TYPE_2A, UROCEDV_MW_TYPE_2B),
                         [](const auto& of) {
                           return of.param == UROCEDV_MW_TYPE_1    ? "Type1"
                                  : of.param == UROCEDV_MW_TYPE_2A ? "Type2A"
                                                                   : "Type2B";
                         });

TEST_P(Window, APeerWritesAndReadsInsideIt) {
  const uint32_t at_first = pair.window->rkey;
  pair.bind_well();
  EXPECT_NE(pair.window->rkey, at_first);
  EXPECT_EQ(pair.window->rkey >> 8, at_first >> 8);
  pair.peer.fill(3);
  EXPECT_EQ(pair.write(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
  const auto begin = pair.owner.memory.begin();
  EXPECT_TRUE(std::equal(pair.peer.memory.begin(), pair.peer.memory.begin() + kLength, begin + kOffset));
  EXPECT_EQ(std::count(begin, begin + kOffset, 0), ptrdiff_t{kOffset});
  pair.owner.fill(90);
  EXPECT_EQ(pair.read(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(pair.peer.memory.begin(), pair.peer.memory.begin() + kLength, begin + kOffset));
}

/// What a peer may not do: each costs the connection, so each gets a new one.
TEST_P(Window, APeerIsRefusedEverythingElse) {
  struct Case {
    const char* what;
    unsigned rights;
    ibv_wr_opcode opcode;
    size_t offset;
    size_t bytes;
  };
  const std::vector<Case> cases = {
      {"a byte before", kBoth, IBV_WR_RDMA_WRITE, kOffset - 1, 1},
      {"a byte behind", kBoth, IBV_WR_RDMA_WRITE, kOffset + kLength, 1},
      {"a byte too many", kBoth, IBV_WR_RDMA_READ, kOffset + 1, kLength},
      {"writing", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, kOffset, 1},
      {"reading", IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, kOffset, 1},
      {"anything", 0, IBV_WR_RDMA_READ, kOffset, 1},
      {"what is a local right", IBV_ACCESS_LOCAL_WRITE, IBV_WR_RDMA_WRITE, kOffset, 1},
  };
  for (const Case& one : cases) {
    const Pair fresh(GetParam());
    ASSERT_EQ(fresh.bind(fresh.part(kOffset, kLength, one.rights)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(fresh.access(fresh.peer, one.opcode, fresh.address(one.offset), one.bytes, fresh.window->rkey),
              IBV_WC_REM_ACCESS_ERR)
        << one.what;
  }
  EXPECT_EQ(pair.write(pair.address(kOffset), 1), IBV_WC_REM_ACCESS_ERR) << "before it is bound";
}

TEST_P(Window, AnotherQueuePairOfTheDomain) {
  pair.bind_well();
  expect_another(GetParam() == UROCEDV_MW_TYPE_2B ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
}

/// As of any provider: a program says what the low eight bits shall be, and finds the key in the window.
TEST_P(Window, OfTheKeyThatABindAsksForOnlyTheLowBitsCount) {
  if (type1()) return;  // whose key is the verb's to choose
  const uint32_t index = pair.window->rkey >> 8;
  for (const uint32_t wanted : {0x7U, 0xFFFFFF08U, 0x12345609U}) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw = {.mw = pair.window, .rkey = wanted, .bind_info = pair.part()};
    ASSERT_EQ(pair.owner.send(request), 0);
    EXPECT_EQ(pair.window->rkey, index << 8 | (wanted & 0xFF));
    ASSERT_EQ(pair.owner.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.write(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
    ASSERT_EQ(pair.unbind().status, IBV_WC_SUCCESS);
  }
}

TEST_P(Window, OfARefusedBindTheKeyStays) {
  const uint32_t before = pair.window->rkey;
  EXPECT_EQ(pair.post_bind(pair.part(), IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(pair.window->rkey, before);
}

/// The end of a queue pair is none of its windows'. One of type 2B has no queue pair then, until it is
/// deallocated; and as long as it is bound, its region stays.
TEST_P(Window, OutlivesTheQueuePairThatBoundIt) {
  pair.bind_well();
  ASSERT_EQ(ibv_destroy_qp(std::exchange(pair.owner.qp, nullptr)), 0);
  expect_another(GetParam() == UROCEDV_MW_TYPE_2B ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(pair.owner.mr), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(std::exchange(pair.window, nullptr)), 0);
}

TEST_P(Window, AfterItsEndThePeerIsRefused) {
  pair.bind_well();
  const uint32_t old = pair.window->rkey;
  const ibv_wc done = pair.unbind();
  ASSERT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, type1() ? IBV_WC_BIND_MW : IBV_WC_LOCAL_INV);
  ASSERT_EQ(pair.bind(pair.part(0, 100)).status, IBV_WC_SUCCESS) << "once more, elsewhere";
  EXPECT_EQ(pair.write(pair.address(0), 100), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.access(pair.peer, IBV_WR_RDMA_WRITE, pair.address(kOffset), 1, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Window, WhileItIsBoundItsRegionStays) {
  ASSERT_EQ(ibv_rereg_mr(pair.owner.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
            0);
  pair.bind_well();
  EXPECT_EQ(ibv_dereg_mr(pair.owner.mr), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(pair.owner.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(pair.write(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(std::exchange(pair.window, nullptr)), 0);
  EXPECT_EQ(ibv_rereg_mr(pair.owner.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
}

TEST_P(Window, IsOfNoUseLocally) {
  // Programs bind with local writing as well.
  ASSERT_EQ(pair.bind(pair.part(kOffset, kLength, kBoth | IBV_ACCESS_LOCAL_WRITE)).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.write(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
  ibv_sge segment{pair.address(kOffset), 8, pair.window->rkey};
  EXPECT_EQ(pair.owner.send(write_request(9, segment, pair.peer)), 0);
  EXPECT_EQ(pair.owner.next().status, IBV_WC_LOC_PROT_ERR);
}

/// The completion of what cannot be bound, and that the window is then what it was.
TEST_P(Window, WhatCannotBeBoundCompletesWithABindError) {
  struct Case {
    const char* what;
    std::function<void(const Pair&, ibv_mw_bind_info&)> change;
  };
  ibv_mr* made = nullptr;
  const auto region = [&made](ibv_pd* pd, const Pair& of, int access) {
    auto* memory = const_cast<uint8_t*>(of.owner.memory.data());
    made = ibv_reg_mr(pd, memory, of.owner.memory.size(), access);
    return made;
  };
  const std::vector<Case> cases = {
      {"behind the region", [](const Pair& of, ibv_mw_bind_info& i) { i.addr = of.address(1 << 16); }},
      {"longer than it", [](const Pair&, ibv_mw_bind_info& i) { i.length = 1 << 16; }},
      {"a right of no window",
       [](const Pair&, ibv_mw_bind_info& i) { i.mw_access_flags = IBV_ACCESS_MW_BIND; }},
      {"a region without the right",
       [&](const Pair& of, ibv_mw_bind_info& i) { i.mr = region(of.owner.pd, of, IBV_ACCESS_LOCAL_WRITE); }},
      {"writing without local write",
       [&](const Pair& of, ibv_mw_bind_info& i) { i.mr = region(of.owner.pd, of, IBV_ACCESS_MW_BIND); }},
      {"a zero-based region",
       [&](const Pair& of, ibv_mw_bind_info& i) {
         i.mr = region(of.owner.pd, of, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
         i.addr = 0;
       }},
  };
  for (const Case& one : cases) {
    const Pair fresh(GetParam());
    ibv_mw_bind_info info = fresh.part();
    one.change(fresh, info);
    const ibv_wc done = fresh.bind(info);
    EXPECT_EQ(done.status, IBV_WC_MW_BIND_ERR) << one.what;
    if (made != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(std::exchange(made, nullptr)), 0) << one.what;
    }
    EXPECT_EQ(ibv_dereg_mr(fresh.owner.mr), 0) << one.what;
    const_cast<End&>(fresh.owner).mr = ibv_reg_mr(
        fresh.owner.pd, const_cast<uint8_t*>(fresh.owner.memory.data()), fresh.owner.memory.size(), 0);
  }
  ibv_mw_bind_info from_zero = pair.part(kOffset, kLength, kBoth | IBV_ACCESS_ZERO_BASED);
  if (type1()) {
    EXPECT_EQ(pair.bind(from_zero).status, IBV_WC_MW_BIND_ERR) << "zero-based, type 1";
    return;
  }
  ASSERT_EQ(pair.bind(from_zero).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.write(0, kLength), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.bind(pair.part()).status, IBV_WC_MW_BIND_ERR) << "bound already";
  const Pair empty(GetParam());
  EXPECT_EQ(empty.bind(empty.part(0, 0)).status, IBV_WC_MW_BIND_ERR) << "no bytes";
}

/// verbs.h itself looks at the domain of a region for type 1.
TEST_P(Window, ARegionOfAnotherDomain) {
  ibv_pd* domain = ibv_alloc_pd(pair.owner.context);
  ibv_mw_bind_info info = pair.part();
  info.mr = ibv_reg_mr(domain, pair.owner.memory.data(), pair.owner.memory.size(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  if (type1()) {
    EXPECT_EQ(pair.post_bind(info), EPERM);
  } else {
    EXPECT_EQ(pair.bind(info).status, IBV_WC_MW_BIND_ERR);
  }
  EXPECT_EQ(ibv_dereg_mr(info.mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

/// What is no request at all.
TEST_P(Window, WhatCannotBePosted) {
  ibv_mw_bind_info nothing = pair.part();
  nothing.mr = nullptr;
  EXPECT_EQ(pair.post_bind(nothing), EINVAL) << "bytes of no region";
  ibv_mw_bind_info foreign = pair.part();
  foreign.mr = pair.peer.mr;
  EXPECT_EQ(pair.post_bind(foreign), type1() ? EPERM : EINVAL) << "another device's region";
  EXPECT_EQ(pair.post_bind(pair.part(), IBV_SEND_INLINE), EINVAL) << "inline";
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw = {.mw = pair.window, .rkey = ibv_inc_rkey(pair.window->rkey), .bind_info = pair.part()};
  ibv_mw_bind bind{.wr_id = 1, .send_flags = 0, .bind_info = pair.part()};
  if (type1()) {
    EXPECT_EQ(pair.owner.send(request), EINVAL) << "a work request, of type 1";
  } else {
    EXPECT_EQ(ibv_bind_mw(pair.owner.qp, pair.window, &bind), EINVAL) << "the verb, of type 2";
    request.bind_mw.mw = nullptr;
    EXPECT_EQ(pair.owner.send(request), EINVAL);
  }
  EXPECT_EQ(urocedv_alloc_mw(nullptr, GetParam()), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/// A peer writes without a pause. When the end of the window is complete, the memory is its owner's alone.
TEST_P(Window, InTheMiddleOfTrafficNoByteComesLate) {
  for (int round = 0; round < 20; ++round) {
    Pair fresh(GetParam());
    fresh.bind_well();
    const uint32_t rkey = fresh.window->rkey;
    fresh.peer.fill(77);
    std::atomic<int> writes{0};
    std::thread peer([&] {
      ibv_wc_status status = IBV_WC_SUCCESS;
      for (; status == IBV_WC_SUCCESS; ++writes)
        status = fresh.access(fresh.peer, IBV_WR_RDMA_WRITE, fresh.address(kOffset), kLength, rkey);
      EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
    });
    while (writes < 3) std::this_thread::yield();
    ASSERT_EQ(fresh.unbind().status, IBV_WC_SUCCESS);
    const auto mark = static_cast<uint8_t>(round);
    std::fill(fresh.owner.memory.begin(), fresh.owner.memory.end(), mark);
    peer.join();
    EXPECT_EQ(std::count(fresh.owner.memory.begin(), fresh.owner.memory.end(), mark), ptrdiff_t{1 << 16});
  }
}

/// Type 1 is bound anew while it is bound; of type 2 the peer that is done with one may end it.
TEST_P(Window, BoundAnew) {
  pair.bind_well();
  if (type1()) {
    const uint32_t old = pair.window->rkey;
    ASSERT_EQ(pair.bind(pair.part(0, 10)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.write(pair.address(0), 10), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.access(pair.peer, IBV_WR_RDMA_WRITE, pair.address(kOffset), 1, old),
              IBV_WC_REM_ACCESS_ERR);
    return;
  }
  ASSERT_EQ(pair.owner.receive(3, pair.owner.part(0, 8)), 0);
  ibv_sge segment = pair.peer.part(0, 8);
  ibv_send_wr request = send_request(4, segment);
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = pair.window->rkey;
  ASSERT_EQ(pair.peer.send(request), 0);
  const ibv_wc received = pair.owner.next();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(received.invalidated_rkey, pair.window->rkey);
  EXPECT_EQ(pair.peer.next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.bind(pair.part(0, 10)).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.write(pair.address(0), 10), IBV_WC_SUCCESS);
}

/// What ibv_alloc_mw makes of type 2 is what the device says and was configured to.
TEST_P(Window, TheVerbMakesWhatTheDeviceAdvertises) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(pair.owner.context, &attributes), 0);
  const unsigned flags = attributes.device_cap_flags;
  EXPECT_NE(flags & IBV_DEVICE_MEM_WINDOW, 0U);
  EXPECT_GT(attributes.max_mw, 0);
  const bool of_domain = (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) != 0;
  EXPECT_NE(of_domain, (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
  const char* const configured = getenv("UROCE_CONFIG_TEXT");
  EXPECT_EQ(of_domain, configured != nullptr && strstr(configured, "window_type2 = \"2A\"") != nullptr);
  const bool has_type = type1() || of_domain == (GetParam() == UROCEDV_MW_TYPE_2A);
  if (!has_type) return;
  EXPECT_EQ(ibv_dealloc_mw(pair.window), 0);
  pair.window = ibv_alloc_mw(pair.owner.pd, type1() ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
  ASSERT_NE(pair.window, nullptr);
  pair.bind_well();
  expect_another(of_domain || type1() ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_alloc_mw(pair.owner.pd, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pair.owner.pd), EBUSY);
}

/// As ibv_wr_* describe it.
TEST(WindowByBuilder, IsBoundAndUsed) {
  const EndOptions options{.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
                           .operations = IBV_QP_EX_WITH_BIND_MW};
  End peer(device_at(0), {});
  End owner(device_at(1), options);
  connect(peer, owner);
  ibv_mw* window = ibv_alloc_mw(owner.pd, IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(owner.qp);
  const ibv_mw_bind_info all{.mr = owner.mr,
                             .addr = reinterpret_cast<uintptr_t>(owner.memory.data()),
                             .length = owner.memory.size(),
                             .mw_access_flags = kBoth};
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  ibv_wr_start(qp);
  qp->wr_id = 5;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(qp, window, rkey, &all);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const ibv_wc done = owner.next();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_BIND_MW);
  ibv_sge segment = peer.all();
  ibv_send_wr request = write_request(1, segment, owner);
  request.wr.rdma.rkey = rkey;
  ASSERT_EQ(peer.send(request), 0);
  EXPECT_EQ(peer.next().status, IBV_WC_SUCCESS);
  ibv_wr_start(qp);
  ibv_wr_bind_mw(qp, nullptr, rkey, &all);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

/// Bound, used by what the peer is told next, in one list of work requests; silent binds leave no completion.
TEST_P(Window, BindsAreInTheOrderOfTheQueue) {
  for (int round = 0; round < 40; ++round) {
    ASSERT_EQ(pair.post_bind(pair.part(), 0), 0);
    ASSERT_EQ(pair.peer.receive(1, pair.peer.part(0, 8)), 0);
    ibv_sge segment = pair.owner.part(0, 8);
    ASSERT_EQ(pair.owner.send(send_request(2, segment)), 0);
    EXPECT_EQ(pair.peer.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.owner.next().opcode, IBV_WC_SEND);
    EXPECT_EQ(pair.write(pair.address(kOffset), kLength), IBV_WC_SUCCESS);
    if (!type1()) {
      ASSERT_EQ(pair.unbind().status, IBV_WC_SUCCESS);
    }
  }
}

}  // namespace

}  // namespace uroce::verbs_test
