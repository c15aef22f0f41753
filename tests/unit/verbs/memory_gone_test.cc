#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "../copy/vanishing_memory.h"
#include "ends.h"

// Registered memory that goes away while a peer uses it costs its connection and nothing else, whatever turns
// the pollers: the program's calls, the background thread, pollers' own threads. (Every operation and place:
// tests/unit/engine/memory_gone_test.cc.)

namespace uroce::verbs_test {

using uroce::testing::Vanishing;
using uroce::testing::VanishingMemory;

/// Two connections; `victim` is the receiving end of the one whose memory goes away.
class MemoryGone : public ::testing::TestWithParam<Vanishing> {
 protected:
  MemoryGone()
      : sender(device_at(0), {.with_channel = true}),
        victim(device_at(1), {.with_channel = true}),
        one(device_at(0), {}),
        other(device_at(1), {}) {
    connect(sender, victim);
    connect(one, other);
    mr = ibv_reg_mr(victim.pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    EXPECT_NE(mr, nullptr);
  }
  ~MemoryGone() override { EXPECT_EQ(ibv_dereg_mr(mr), 0); }

  [[nodiscard]] ibv_sge gone(size_t offset, uint32_t bytes) const {
    return {reinterpret_cast<uintptr_t>(memory.data()) + offset, bytes, mr->lkey};
  }
  [[nodiscard]] ibv_send_wr write_to_gone(uint64_t id, ibv_sge& segment) const {
    ibv_send_wr request = write_request(id, segment, victim);
    request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(memory.data());
    request.wr.rdma.rkey = mr->rkey;
    return request;
  }
  /// Sleeps until there is a completion: no call turns a poller meanwhile.
  static ibv_wc sleep_for_next(const End& end) {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(end.channel, &cq, &cq_context), 0);
    ibv_ack_cq_events(cq, 1);
    return end.next();
  }
  void expect_the_others_to_work() {
    one.fill(3);
    ibv_sge segment = one.all();
    ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.memory, other.memory);
  }

  const VanishingMemory memory{2};
  End sender;
  End victim;
  End one;
  End other;
  ibv_mr* mr = nullptr;
};

TEST_P(MemoryGone, AWriteToItFailsAndEverythingElseGoesOn) {
  for (const uint32_t bytes : {8U, 4096U}) {
    memory.vanish(GetParam());
    ibv_sge segment = sender.part(0, bytes);
    ASSERT_EQ(sender.send(write_to_gone(1, segment)), 0);
    EXPECT_EQ(sender.next().status, IBV_WC_REM_ACCESS_ERR);
    expect_the_others_to_work();
    memory.come_back();
    for (const End* end : {&sender, &victim}) {
      ibv_qp_attr reset{};
      reset.qp_state = IBV_QPS_RESET;
      ASSERT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
    }
    connect(sender, victim);
  }
}

TEST_P(MemoryGone, ASendIntoItFailsWhileEverybodySleeps) {
  ASSERT_EQ(victim.receive(7, gone(0, 4096)), 0);
  memory.vanish(GetParam());
  ASSERT_EQ(ibv_req_notify_cq(sender.cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(victim.cq, 0), 0);
  ibv_sge segment = sender.part(0, 8);
  ASSERT_EQ(sender.send(send_request(1, segment)), 0);
  EXPECT_EQ(sleep_for_next(sender).status, IBV_WC_REM_OP_ERR);
  const ibv_wc received = sleep_for_next(victim);
  EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(received.wr_id, 7U);
  expect_the_others_to_work();
}

/// Each thread of a program may turn pollers, also one that listens to no signal.
TEST_P(MemoryGone, AThreadThatBlocksEverySignalSurvivesItToo) {
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::thread([&] {
    // Not before there is a thread: its stack might take the place.
    memory.vanish(GetParam());
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    ibv_sge segment = sender.part(0, 4096);
    EXPECT_EQ(sender.send(write_to_gone(1, segment)), 0);
    status = sender.next().status;
  }).join();
  EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
  expect_the_others_to_work();
}

INSTANTIATE_TEST_SUITE_P(All, MemoryGone, ::testing::ValuesIn(uroce::testing::kVanishings),
                         [](const auto& tested) {
                           std::string name = to_string(tested.param);
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

using MemoryGoneDeathTest = ::testing::Test;

/// What the program itself must not touch, and does.
void* own_page = nullptr;

/// The program's own handler, installed before or after us, still hears of the program's own faults.
TEST_F(MemoryGoneDeathTest, TheProgramsOwnHandlerKeepsItsFaults) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const bool before : {true, false}) {
    EXPECT_EXIT(
        {
          const auto install = [] {
            struct sigaction action = {};
            action.sa_sigaction = [](int, siginfo_t* info, void*) {
              _exit(info->si_addr == own_page ? 42 : 1);
            };
            action.sa_flags = SA_SIGINFO;
            sigaction(SIGSEGV, &action, nullptr);
          };
          if (before) install();
          const VanishingMemory memory(1);
          const VanishingMemory own(1);
          own.vanish(Vanishing::kNoAccess);
          own_page = own.data();
          End sender(device_at(0), {});
          End victim(device_at(1), {});
          connect(sender, victim);
          if (!before) install();
          ibv_mr* mr = ibv_reg_mr(victim.pd, memory.data(), memory.size(),
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
          memory.vanish(Vanishing::kUnmapped);
          ibv_sge segment = sender.part(0, 8);
          ibv_send_wr request = write_request(1, segment, victim);
          request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(memory.data());
          request.wr.rdma.rkey = mr->rkey;
          if (sender.send(request) != 0 || sender.next().status != IBV_WC_REM_ACCESS_ERR) _exit(2);
          *static_cast<volatile char*>(own_page) = 1;
        },
        ::testing::ExitedWithCode(42), "");
  }
}

}  // namespace uroce::verbs_test
