// What both ends see when two things are wrong at once: that of the earlier check. In the order of the checks
// of a message (the queue pair's rights, a receive, its length, memory, then the key to be invalidated; at
// the requester its limits, keys to be invalidated, memory, and only then the peer) and of those of a key
// (key, domain, access, state, range, queue pair), of which all give one status.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinds.h"
#include "operations.h"

namespace uroce::verbs_test {
namespace {

constexpr Outcome kNotReady{.peer = IBV_WC_RNR_RETRY_EXC_ERR};
constexpr Outcome kForbidden{.peer = IBV_WC_REM_INV_REQ_ERR};
constexpr Outcome kTooLong{.own = IBV_WC_LOC_LEN_ERR, .peer = IBV_WC_REM_INV_REQ_ERR};

/// Things that can be wrong with a peer's SEND with invalidate or WRITE with immediate.
struct Wrong {
  bool rights = false;   // the queue pair grants none
  bool receive = false;  // none is posted
  bool length = false;   // too long for it
  bool memory = false;   // its key
  bool key = false;      // of the request
};

class OrderOfChecks : public ::testing::Test {
 protected:
  /// The peer asks once and not again.
  void connect(const Wrong& wrong, uint8_t reads = 4) {
    for (const End* end : {&parties.peer, &parties.owner}) {
      const End& other = end == &parties.peer ? parties.owner : parties.peer;
      ibv_qp_attr reset{};
      reset.qp_state = IBV_QPS_RESET;
      ASSERT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
      while (!end->nothing_to_poll()) {
      }
      ibv_qp_attr attributes =
          init_attributes(wrong.rights ? 0 : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
      ASSERT_EQ(ibv_modify_qp(end->qp, &attributes, kInitMask), 0);
      end->to_rtr(other);
      attributes = rts_attributes();
      attributes.rnr_retry = 0;
      attributes.max_rd_atomic = reads;
      ASSERT_EQ(ibv_modify_qp(end->qp, &attributes, kRtsMask), 0);
    }
  }
  Outcome request(ibv_wr_opcode opcode, const Wrong& wrong) {
    connect(wrong);
    if (!wrong.receive) {
      ibv_sge place = parties.owner.part(0, wrong.length ? 9 : 10);
      if (wrong.memory) place.lkey ^= 1;
      EXPECT_EQ(parties.owner.receive(1, place), 0);
    }
    Region region = parties.make(Kind::kFast, kAllRights);
    ibv_sge segment = parties.peer.part(0, 10);
    ibv_send_wr request = write_request(2, segment, parties.owner);
    request.opcode = opcode;
    const uint32_t key = wrong.key ? region.rkey ^ 0x100 : region.rkey;
    if (opcode == IBV_WR_SEND_WITH_INV) {
      request.invalidate_rkey = key;
    } else {
      request.wr.rdma = {.remote_addr = region.address, .rkey = key};
    }
    EXPECT_EQ(parties.peer.send(request), 0);
    Outcome outcome{.peer = parties.peer.next().status};
    // An owner that has no part in it gets no completion; its receive is flushed if the connection is lost.
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(parties.owner.qp, &error, IBV_QP_STATE), 0);
    if (!wrong.receive) outcome.own = parties.owner.next().status;
    if (outcome.own == IBV_WC_WR_FLUSH_ERR) outcome.own = IBV_WC_SUCCESS;
    parties.reconnect();
    parties.release(region);
    return outcome;
  }
  Parties parties;
};

struct Case {
  const char* what;
  Wrong wrong;
  Outcome expected;
};

TEST_F(OrderOfChecks, OfASendWithInvalidate) {
  const std::vector<Case> cases = {
      {"nothing", {}, kDone},
      {"no receive", {.receive = true}, kNotReady},
      {"no receive, key", {.receive = true, .key = true}, kNotReady},
      {"length", {.length = true}, kTooLong},
      {"length, memory", {.length = true, .memory = true}, kTooLong},
      {"length, key", {.length = true, .key = true}, kTooLong},
      {"memory", {.memory = true}, kRecv},
      {"memory, key", {.memory = true, .key = true}, kRecv},
      {"key", {.key = true}, kKept},
      // A SEND needs no rights.
      {"rights", {.rights = true}, kDone},
      {"rights, key", {.rights = true, .key = true}, kKept},
  };
  for (const Case& one : cases) EXPECT_EQ(request(IBV_WR_SEND_WITH_INV, one.wrong), one.expected) << one.what;
}

/// What may not be written completes the receive that it would have completed, if there is one.
TEST_F(OrderOfChecks, OfAWriteWithImmediate) {
  constexpr Outcome kTold{.own = IBV_WC_LOC_ACCESS_ERR, .peer = IBV_WC_REM_ACCESS_ERR};
  const std::vector<Case> cases = {
      {"nothing", {}, kDone},
      // None belongs to an operation that the queue pair does not have.
      {"rights", {.rights = true}, kForbidden},
      {"rights, no receive", {.rights = true, .receive = true}, kForbidden},
      {"rights, key", {.rights = true, .key = true}, kForbidden},
      {"no receive", {.receive = true}, kNotReady},
      {"no receive, key", {.receive = true, .key = true}, kNotReady},
      {"key", {.key = true}, kTold},
      // The memory of its receive is not looked at.
      {"memory", {.memory = true}, kDone},
      {"length", {.length = true}, kDone},
      {"memory, key", {.memory = true, .key = true}, kTold},
  };
  for (const Case& one : cases)
    EXPECT_EQ(request(IBV_WR_RDMA_WRITE_WITH_IMM, one.wrong), one.expected) << one.what;
}

/// The owner's READ with invalidate; nothing that is wrong with it reaches the peer.
TEST_F(OrderOfChecks, OfTheRequester) {
  struct Request {
    const char* what;
    bool reads;       // none are allowed
    bool invalidate;  // the key to be invalidated
    bool memory;
    bool peer;  // the peer's key
    ibv_wc_status expected;
  };
  const std::vector<Request> cases = {
      {"reads", true, false, false, false, IBV_WC_LOC_QP_OP_ERR},
      {"reads, invalidate", true, true, false, false, IBV_WC_LOC_QP_OP_ERR},
      {"reads, memory", true, false, true, false, IBV_WC_LOC_QP_OP_ERR},
      {"invalidate", false, true, false, false, IBV_WC_MW_BIND_ERR},
      {"invalidate, memory", false, true, true, false, IBV_WC_MW_BIND_ERR},
      {"invalidate, peer", false, true, false, true, IBV_WC_MW_BIND_ERR},
      {"memory", false, false, true, false, IBV_WC_LOC_PROT_ERR},
      {"memory, peer", false, false, true, true, IBV_WC_LOC_PROT_ERR},
      {"peer", false, false, false, true, IBV_WC_REM_ACCESS_ERR},
      {"nothing", false, false, false, false, IBV_WC_SUCCESS},
  };
  for (const Request& one : cases) {
    Region region = parties.make(Kind::kFast, kAllRights);
    connect({}, one.reads ? 0 : 4);
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(parties.owner.qp);
    ibv_wr_start(qp);
    urocedv_wr_rdma_read_inv(qp, parties.peer.mr->rkey ^ (one.peer ? 1 : 0),
                             reinterpret_cast<uintptr_t>(parties.peer.memory.data()),
                             region.rkey ^ (one.invalidate ? 1 : 0));
    ibv_wr_set_sge(qp, region.lkey ^ (one.memory ? 1 : 0), region.address, 10);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(parties.owner.next().status, one.expected) << one.what;
    parties.reconnect();
    parties.release(region);
  }
}

/// A window of one queue pair, of which two things are wrong. The test of the key table says which is found;
/// here each has its way to be wrong, alone and with each of the others.
TEST_F(OrderOfChecks, OfAKey) {
  enum Fault { kKey, kDomain, kAccess, kState, kRange, kQueuePair, kFaults };
  Parties others;
  for (int first = 0; first < kFaults; ++first) {
    for (int second = first; second < kFaults; ++second) {
      const auto wrong = [&](Fault fault) { return fault == first || fault == second; };
      SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(second));
      // Bound by the queue pair of the others' domain, or by another of ours.
      Parties& maker = wrong(kDomain) ? others : parties;
      ibv_qp* own = nullptr;
      std::optional<End> stranger;
      if (wrong(kQueuePair) && !wrong(kDomain)) {
        stranger.emplace(device_at(0), EndOptions{.signal_all = true});
        ibv_qp_init_attr initial{};
        initial.send_cq = initial.recv_cq = parties.owner.cq;
        initial.cap = {4, 4, 1, 1, 0};
        initial.qp_type = IBV_QPT_RC;
        initial.sq_sig_all = 1;
        own = std::exchange(parties.owner.qp, create_able(parties.owner.pd, &initial));
        verbs_test::connect(*stranger, parties.owner);
      }
      Region region =
          maker.make(Kind::kWindow2B, wrong(kAccess) ? IBV_ACCESS_REMOTE_READ : best_rights(Kind::kWindow2B));
      ASSERT_EQ(region.made, kDone);
      if (wrong(kState)) maker.unbind(region);
      if (own != nullptr) std::swap(parties.owner.qp, own);
      if (wrong(kKey)) region.rkey ^= 1;
      if (wrong(kRange)) region.address += kPageBytes;
      EXPECT_EQ(remote_write(parties, region), kNak);
      if (!wrong(kAccess)) {
        EXPECT_EQ(remote_read(parties, region), kNak);
      }
      // A window that is free already is any queue pair's.
      const bool fine = !wrong(kKey) && !wrong(kDomain) && (wrong(kState) || !wrong(kQueuePair));
      EXPECT_EQ(send_invalidate(parties, region), fine ? kDone : kKept);
      if (own != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(own), 0);
      }
      maker.release(region);
    }
  }
}

}  // namespace
}  // namespace uroce::verbs_test
