#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

#include "ends.h"
#include "verbs/calls/refusal.h"

// Each row of the table of refusals is reached by a call of verbs, which fails with its errno and writes its
// sentence on standard error.

namespace uroce::verbs_test {
namespace {

using verbs::Reason;

/// Standard error as a log that is appended to, while the function runs.
std::string standard_error_of(const std::function<void()>& call) {
  std::string path = "/tmp/uroce-refusals-XXXXXX";
  const int made = mkostemp(path.data(), O_APPEND);
  const int before = dup(STDERR_FILENO);
  dup2(made, STDERR_FILENO);
  call();
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(static_cast<size_t>(lseek(made, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(made, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(made);
  unlink(path.c_str());
  return text;
}

class Refusals : public ::testing::Test {
 protected:
  /// The errno of ibv_modify_qp to RTR, of attributes with one mistake.
  int modify(const std::function<void(ibv_qp_attr&)>& spoil, int mask = kRtrMask) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(peer.context, 1, 1, &gid), 0);
    ibv_qp_attr attributes = rtr_attributes(end.context, peer.qp->qp_num, gid);
    spoil(attributes);
    return ibv_modify_qp(end.qp, &attributes, mask);
  }
  int set(int bit, const std::function<void(ibv_qp_attr&)>& spoil) { return modify(spoil, kRtrMask | bit); }
  /// The errno of ibv_create_qp.
  int create(const std::function<void(ibv_qp_init_attr&)>& spoil) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = end.cq;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {1, 1, 1, 1, 0};
    spoil(wanted);
    errno = 0;
    EXPECT_EQ(ibv_create_qp(end.pd, &wanted), nullptr);
    return errno;
  }

  int reach(Reason reason);
  int reach_address(Reason reason);
  int reach_value(Reason reason);
  int reach_creation(Reason reason);

  EndOptions options;
  End end{device_at(0), options};
  End peer{device_at(1), options};
};

int Refusals::reach_address(Reason reason) {
  switch (reason) {
    case Reason::kNotGlobal:
      return modify([](auto& a) { a.ah_attr.is_global = 0; });
    case Reason::kAddressPort:
      return modify([](auto& a) { a.ah_attr.port_num = 2; });
    case Reason::kSourceGid:
      return modify([](auto& a) { a.ah_attr.grh.sgid_index = 200; });
    case Reason::kServiceLevel:
      return modify([](auto& a) { a.ah_attr.sl = 16; });
    case Reason::kDestination:
      return modify([](auto& a) { a.ah_attr.grh.dgid = {}; });
    case Reason::kFamilies:  // GID 0 is the link-local IPv6 address
      return modify([](auto& a) { a.ah_attr.grh.sgid_index = 0; });
    default:
      return modify([](auto& a) {
        a.ah_attr.grh.dgid = {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 224, 0, 0, 9}};
      });
  }
}

int Refusals::reach_value(Reason reason) {
  switch (reason) {
    case Reason::kUnknownAttributes:
      return set(1 << 30, [](auto&) {});
    case Reason::kUnsupportedAttributes:
      return set(IBV_QP_ALT_PATH, [](auto&) {});
    case Reason::kState:
      return modify([](auto& a) { a.qp_state = static_cast<ibv_qp_state>(7); });
    case Reason::kCurrentState:
      return set(IBV_QP_CUR_STATE, [](auto& a) { a.cur_qp_state = static_cast<ibv_qp_state>(7); });
    case Reason::kAccessFlags:
      return set(IBV_QP_ACCESS_FLAGS, [](auto& a) { a.qp_access_flags = IBV_ACCESS_ZERO_BASED; });
    case Reason::kPkeyIndex:
      return set(IBV_QP_PKEY_INDEX, [](auto& a) { a.pkey_index = 1000; });
    case Reason::kPort:
      return set(IBV_QP_PORT, [](auto& a) { a.port_num = 2; });
    case Reason::kPathMtu:
      return modify([](auto& a) { a.path_mtu = static_cast<ibv_mtu>(6); });
    case Reason::kTimeout:
      return set(IBV_QP_TIMEOUT, [](auto& a) { a.timeout = 32; });
    case Reason::kMinRnrTimer:
      return modify([](auto& a) { a.min_rnr_timer = 32; });
    case Reason::kRetryCount:
      return set(IBV_QP_RETRY_CNT, [](auto& a) { a.retry_cnt = 8; });
    case Reason::kRnrRetry:
      return set(IBV_QP_RNR_RETRY, [](auto& a) { a.rnr_retry = 8; });
    case Reason::kReadsSent:
      return set(IBV_QP_MAX_QP_RD_ATOMIC, [](auto& a) { a.max_rd_atomic = 255; });
    case Reason::kReadsAnswered:
      return modify([](auto& a) { a.max_dest_rd_atomic = 255; });
    case Reason::kDestinationQp:
      return modify([](auto& a) { a.dest_qp_num = 1 << 24; });
    default:  // the queue pair is in RESET
      return modify([](auto&) {});
  }
}

int Refusals::reach_creation(Reason reason) {
  ibv_srq_init_attr few{.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  switch (reason) {
    case Reason::kQpType:
      return create([](auto& w) { w.qp_type = static_cast<ibv_qp_type>(99); });
    case Reason::kRawPacket:
      return create([](auto& w) { w.qp_type = IBV_QPT_RAW_PACKET; });
    case Reason::kSharedReceives: {
      ibv_srq* const others = ibv_create_srq(peer.pd, &few);
      const int error = create([&](auto& w) { w.srq = others; });
      EXPECT_EQ(ibv_destroy_srq(others), 0);
      return error;
    }
    case Reason::kSendCq:
      return create([](auto& w) { w.send_cq = nullptr; });
    case Reason::kReceiveCq:
      return create([&](auto& w) { w.recv_cq = peer.cq; });
    case Reason::kSendRequests:
      return create([](auto& w) { w.cap.max_send_wr = 1 << 20; });
    case Reason::kReceiveRequests:
      return create([](auto& w) { w.cap.max_recv_wr = 1 << 20; });
    case Reason::kSendSegments:
      return create([](auto& w) { w.cap.max_send_sge = 1000; });
    case Reason::kReceiveSegments:
      return create([](auto& w) { w.cap.max_recv_sge = 1000; });
    default:
      return create([](auto& w) { w.cap.max_inline_data = 1 << 20; });
  }
}

int Refusals::reach(Reason reason) {
  if (reason <= Reason::kMulticast) return reach_address(reason);
  return reason <= Reason::kTransition ? reach_value(reason) : reach_creation(reason);
}

TEST_F(Refusals, EachReasonIsReachedAndSaid) {
  for (const verbs::Refusal& row : verbs::kRefusals) {
    int error = 0;
    const std::string text = standard_error_of([&] { error = reach(row.reason); });
    const std::string head(row.sentence.substr(0, row.sentence.find('{')));
    EXPECT_EQ(error, row.error) << row.sentence;
    EXPECT_NE(text.find(head), std::string::npos) << row.sentence << "\nbut: " << text;
    EXPECT_EQ(text.find('{'), std::string::npos) << text;
  }
}

TEST_F(Refusals, TheSentenceNamesFieldValueAndRule) {
  const std::string text = standard_error_of([&] { reach(Reason::kNotGlobal); });
  EXPECT_EQ(text,
            "uroce: EINVAL: ah_attr.is_global is 0; RoCE needs a GID index, as with -g 1 of "
            "ibv_rc_pingpong\n");
}

}  // namespace
}  // namespace uroce::verbs_test
