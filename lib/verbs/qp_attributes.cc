#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "net/derived_mac.h"
#include "qp/attributes.h"
#include "verbs/call_guard.h"
#include "verbs/objects.h"
#include "wire/service_level.h"
#include "wire/vlan.h"

namespace uroce::verbs {

namespace {

constexpr uint32_t kPsnMask = 0xFFFFFF;
// The rest of the field is left out, as hardware does: there are programs that set all of it.
constexpr uint32_t kFlowLabelMask = 0xFFFFF;
constexpr uint8_t kTimerMax = 31;  // timeout, min_rnr_timer: five bits
constexpr uint8_t kRetryMax = 7;   // retry_cnt, rnr_retry: three bits
constexpr uint8_t kDefaultHopLimit = 64;
constexpr unsigned int kAccessKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                      IBV_ACCESS_OPTIONAL_RANGE | mem::kFlushGlobal.bits();

/// Attributes of features that are not there.
constexpr int kUnsupported = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
constexpr int kKnown = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                       IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                       IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN |
                       IBV_QP_EN_SQD_ASYNC_NOTIFY | kUnsupported;

static_assert(static_cast<int>(qp::kMaskDestQpn) == IBV_QP_DEST_QPN);
static_assert(static_cast<int>(qp::kMaskMaxDestRdAtomic) == IBV_QP_MAX_DEST_RD_ATOMIC);
static_assert(static_cast<int>(qp::kMaskAv) == IBV_QP_AV &&
              static_cast<int>(qp::kMaskSqPsn) == IBV_QP_SQ_PSN);
static_assert(static_cast<int>(qp::State::kErr) == IBV_QPS_ERR);
static_assert(static_cast<int>(qp::Type::kRc) == IBV_QPT_RC);
static_assert(static_cast<int>(qp::Type::kUc) == IBV_QPT_UC && static_cast<int>(qp::Type::kUd) == IBV_QPT_UD);
static_assert(static_cast<int>(PathMtu::k4096) == IBV_MTU_4096);

bool state_known(const ibv_qp_state& state) { return bits_of(state) <= IBV_QPS_ERR; }

bool has_mtu(const ibv_mtu& mtu, PathMtu largest) {
  const unsigned code = bits_of(mtu);
  return code >= IBV_MTU_256 && code <= static_cast<unsigned>(largest);
}

/// 0 or EINVAL; a value counts only when its bit is in the mask.
int check_values(const ibv_qp_attr& from, int mask, const engine::Device& device) {
  const auto given = [mask](int bit) { return (mask & bit) != 0; };
  const bool bad =
      (given(IBV_QP_STATE) && !state_known(from.qp_state)) ||
      (given(IBV_QP_CUR_STATE) && !state_known(from.cur_qp_state)) ||
      (given(IBV_QP_ACCESS_FLAGS) && (from.qp_access_flags & ~kAccessKnown) != 0) ||
      (given(IBV_QP_PKEY_INDEX) && from.pkey_index >= device.partition_keys().size()) ||
      (given(IBV_QP_PORT) && from.port_num != 1) ||
      (given(IBV_QP_PATH_MTU) && !has_mtu(from.path_mtu, device.path_mtu_max())) ||
      (given(IBV_QP_TIMEOUT) && from.timeout > kTimerMax) ||
      (given(IBV_QP_MIN_RNR_TIMER) && from.min_rnr_timer > kTimerMax) ||
      (given(IBV_QP_RETRY_CNT) && from.retry_cnt > kRetryMax) ||
      (given(IBV_QP_RNR_RETRY) && from.rnr_retry > kRetryMax) ||
      (given(IBV_QP_MAX_QP_RD_ATOMIC) && from.max_rd_atomic > engine::Limits::kReadsSent) ||
      (given(IBV_QP_MAX_DEST_RD_ATOMIC) && from.max_dest_rd_atomic > engine::Limits::kReadsAnswered) ||
      (given(IBV_QP_DEST_QPN) && from.dest_qp_num > QpNumber::kMask);
  return bad ? EINVAL : 0;
}

/// A host or a group.
bool can_be_there(const Gid& gid) {
  const bool reserved = gid.is_ipv4() && gid.bytes[12] >= 240;
  return gid != Gid{} && gid != Gid::from_ipv4({}) && !reserved;
}

}  // namespace

int translate(const ibv_ah_attr& from, const net::GidTable& gids, wire::Path& to) {
  if (from.is_global == 0 || from.port_num != 1 || !gids.in_use(from.grh.sgid_index)) return EINVAL;
  const std::optional<uint8_t> priority = wire::priority_of_service_level(from.sl);
  if (!priority) return EINVAL;
  to.source = gids.at(from.grh.sgid_index);
  std::memcpy(to.destination.bytes.data(), from.grh.dgid.raw, to.destination.bytes.size());
  if (!can_be_there(to.destination) || to.source.is_ipv4() != to.destination.is_ipv4()) return EINVAL;
  // As Linux does: the VLAN is that of our address, the priority the service level.
  const uint16_t vlan = gids.vlan_of(from.grh.sgid_index);
  to.has_vlan = vlan != 0;
  to.vlan_tci = vlan != 0 ? wire::make_tci(vlan, *priority) : uint16_t{0};
  to.traffic_class = from.grh.traffic_class;
  to.hop_limit = from.grh.hop_limit != 0 ? from.grh.hop_limit : kDefaultHopLimit;
  to.flow_label = from.grh.flow_label & kFlowLabelMask;
  return 0;
}

int translate(const VerbsQp& qp, const ibv_qp_attr& from, int mask, qp::Attributes& to) {
  if ((mask & ~kKnown) != 0) return EINVAL;
  if ((mask & kUnsupported) != 0) return EOPNOTSUPP;
  const engine::Device& device = *qp.owner->device;
  if (const int error = check_values(from, mask, device); error != 0) return error;
  if ((mask & IBV_QP_AV) != 0) {
    if (const int error = translate(from.ah_attr, device.gids(), to.path); error != 0) return error;
    if (net::is_multicast(to.path.destination)) return EINVAL;
  }
  // What is not in the mask is not looked at, so it need not be sensible.
  to.state = static_cast<qp::State>(bits_of(from.qp_state));
  to.current_state = static_cast<qp::State>(bits_of(from.cur_qp_state));
  to.access = mem::Access(from.qp_access_flags & ~static_cast<unsigned int>(IBV_ACCESS_OPTIONAL_RANGE));
  to.pkey_index = from.pkey_index;
  to.port = from.port_num;
  to.path_mtu = static_cast<PathMtu>(bits_of(from.path_mtu));
  to.destination = {from.dest_qp_num};
  to.qkey = from.qkey;
  to.rq_psn = Psn(from.rq_psn & kPsnMask);
  to.sq_psn = Psn(from.sq_psn & kPsnMask);
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.min_rnr_timer = from.min_rnr_timer;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.notify_drained = from.en_sqd_async_notify != 0;
  return 0;
}

}  // namespace uroce::verbs
