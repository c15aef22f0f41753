#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "net/derived_mac.h"
#include "qp/attributes/attributes.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"
#include "wire/service_level.h"
#include "wire/vlan.h"

namespace uroce::verbs {

namespace {

constexpr uint32_t kPsnMask = 0xFFFFFF;
// The rest of the field is left out, as hardware does: UCX sets all of it. Cost: a mistyped value is not
// reported.
constexpr uint32_t kFlowLabelMask = 0xFFFFF;
constexpr uint8_t kTimerMax = 31;  // timeout, min_rnr_timer: five bits
constexpr uint8_t kRetryMax = 7;   // retry_cnt, rnr_retry: three bits
constexpr uint8_t kDefaultHopLimit = 64;
constexpr unsigned int kAccessKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                      IBV_ACCESS_OPTIONAL_RANGE | mem::kFlushGlobal.bits();

/// One attribute, as the stack and as the interface know it: one bit.
struct AttributeName {
  qp::AttributeMask ours;
  ibv_qp_attr_mask theirs;
};
constexpr AttributeName kAttributes[] = {
    {qp::kMaskState, IBV_QP_STATE},
    {qp::kMaskCurrentState, IBV_QP_CUR_STATE},
    {qp::kMaskEnSqdAsyncNotify, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {qp::kMaskAccessFlags, IBV_QP_ACCESS_FLAGS},
    {qp::kMaskPkeyIndex, IBV_QP_PKEY_INDEX},
    {qp::kMaskPort, IBV_QP_PORT},
    {qp::kMaskQkey, IBV_QP_QKEY},
    {qp::kMaskAv, IBV_QP_AV},
    {qp::kMaskPathMtu, IBV_QP_PATH_MTU},
    {qp::kMaskTimeout, IBV_QP_TIMEOUT},
    {qp::kMaskRetryCount, IBV_QP_RETRY_CNT},
    {qp::kMaskRnrRetry, IBV_QP_RNR_RETRY},
    {qp::kMaskRqPsn, IBV_QP_RQ_PSN},
    {qp::kMaskMaxRdAtomic, IBV_QP_MAX_QP_RD_ATOMIC},
    {qp::kMaskAltPath, IBV_QP_ALT_PATH},
    {qp::kMaskMinRnrTimer, IBV_QP_MIN_RNR_TIMER},
    {qp::kMaskSqPsn, IBV_QP_SQ_PSN},
    {qp::kMaskMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC},
    {qp::kMaskPathMigState, IBV_QP_PATH_MIG_STATE},
    {qp::kMaskCap, IBV_QP_CAP},
    {qp::kMaskDestQpn, IBV_QP_DEST_QPN},
    {qp::kMaskRateLimit, IBV_QP_RATE_LIMIT},
};
static_assert(std::ranges::all_of(kAttributes, [](const AttributeName& attribute) {
  return attribute.ours == qp::AttributeMask(attribute.theirs);
}));

/// Every attribute that the interface has.
constexpr qp::AttributeMask kKnown = [] {
  qp::AttributeMask all;
  for (const AttributeName& attribute : kAttributes) all |= attribute.ours;
  return all;
}();
/// Attributes of features that are not there.
constexpr qp::AttributeMask kUnsupported =
    qp::kMaskAltPath | qp::kMaskPathMigState | qp::kMaskCap | qp::kMaskRateLimit;

static_assert(static_cast<int>(qp::State::kErr) == IBV_QPS_ERR);
static_assert(static_cast<int>(qp::Type::kRc) == IBV_QPT_RC);
static_assert(static_cast<int>(qp::Type::kUc) == IBV_QPT_UC && static_cast<int>(qp::Type::kUd) == IBV_QPT_UD);
static_assert(static_cast<int>(PathMtu::k4096) == IBV_MTU_4096);

bool has_mtu(const ibv_mtu& mtu, PathMtu largest) {
  const unsigned code = bits_of(mtu);
  return code >= IBV_MTU_256 && code <= static_cast<unsigned>(largest);
}

/// 0 or an errno; a value counts only when its bit is in the mask.
int check_values(const ibv_qp_attr& from, qp::AttributeMask mask, const engine::Device& device) {
  const size_t pkeys = device.partition_keys().size();
  const auto largest = static_cast<unsigned>(device.path_mtu_max());
  struct Value {
    qp::AttributeMask attribute;
    Reason reason;
    bool good;
    uint64_t value;
    uint64_t limit = 0;
  };
  const auto at_most = [](qp::AttributeMask attribute, Reason reason, uint64_t value, uint64_t limit) {
    return Value{attribute, reason, value <= limit, value, limit};
  };
  for (const Value& one : {
           at_most(qp::kMaskState, Reason::kState, bits_of(from.qp_state), IBV_QPS_ERR),
           at_most(qp::kMaskCurrentState, Reason::kCurrentState, bits_of(from.cur_qp_state), IBV_QPS_ERR),
           Value{qp::kMaskAccessFlags, Reason::kAccessFlags, (from.qp_access_flags & ~kAccessKnown) == 0,
                 from.qp_access_flags},
           Value{qp::kMaskPkeyIndex, Reason::kPkeyIndex, from.pkey_index < pkeys, from.pkey_index, pkeys},
           Value{qp::kMaskPort, Reason::kPort, from.port_num == 1, from.port_num},
           Value{qp::kMaskPathMtu, Reason::kPathMtu,
                 !mask.any(qp::kMaskPathMtu) || has_mtu(from.path_mtu, device.path_mtu_max()),
                 bits_of(from.path_mtu), largest},
           at_most(qp::kMaskTimeout, Reason::kTimeout, from.timeout, kTimerMax),
           at_most(qp::kMaskMinRnrTimer, Reason::kMinRnrTimer, from.min_rnr_timer, kTimerMax),
           at_most(qp::kMaskRetryCount, Reason::kRetryCount, from.retry_cnt, kRetryMax),
           at_most(qp::kMaskRnrRetry, Reason::kRnrRetry, from.rnr_retry, kRetryMax),
           at_most(qp::kMaskMaxRdAtomic, Reason::kReadsSent, from.max_rd_atomic, engine::Limits::kReadsSent),
           at_most(qp::kMaskMaxDestRdAtomic, Reason::kReadsAnswered, from.max_dest_rd_atomic,
                   engine::Limits::kReadsAnswered),
           at_most(qp::kMaskDestQpn, Reason::kDestinationQp, from.dest_qp_num, QpNumber::kMask),
       }) {
    if (mask.any(one.attribute) && !one.good) return refused(one.reason, one.value, one.limit);
  }
  return 0;
}

/// A host or a group.
bool can_be_there(const Gid& gid) {
  const bool reserved = gid.is_ipv4() && gid.bytes[12] >= 240;
  return gid != Gid{} && gid != Gid::from_ipv4({}) && !reserved;
}

}  // namespace

int translate(const ibv_ah_attr& from, const net::GidTable& gids, wire::Path& to) {
  if (from.is_global == 0) return refused(Reason::kNotGlobal, from.is_global);
  if (from.port_num != 1) return refused(Reason::kAddressPort, from.port_num);
  if (!gids.in_use(from.grh.sgid_index)) return refused(Reason::kSourceGid, from.grh.sgid_index);
  const std::optional<uint8_t> priority = wire::priority_of_service_level(from.sl);
  if (!priority) return refused(Reason::kServiceLevel, from.sl);
  to.source = gids.at(from.grh.sgid_index);
  std::memcpy(to.destination.bytes.data(), from.grh.dgid.raw, to.destination.bytes.size());
  if (!can_be_there(to.destination)) return refused(Reason::kDestination);
  if (to.source.is_ipv4() != to.destination.is_ipv4()) return refused(Reason::kFamilies, from.grh.sgid_index);
  // As Linux does: the VLAN is that of our address, the priority the service level.
  const uint16_t vlan = gids.vlan_of(from.grh.sgid_index);
  to.has_vlan = vlan != 0;
  to.vlan_tci = vlan != 0 ? wire::make_tci(vlan, *priority) : uint16_t{0};
  to.traffic_class = from.grh.traffic_class;
  to.hop_limit = from.grh.hop_limit != 0 ? from.grh.hop_limit : kDefaultHopLimit;
  to.flow_label = from.grh.flow_label & kFlowLabelMask;
  return 0;
}

int translate(const VerbsQp& qp, const ibv_qp_attr& from, qp::AttributeMask mask, qp::Attributes& to) {
  if (!kKnown.covers(mask)) return refused(Reason::kUnknownAttributes, mask.bits());
  if (mask.any(kUnsupported)) return refused(Reason::kUnsupportedAttributes, mask.bits());
  const engine::Device& device = *qp.owner->device;
  if (const int error = check_values(from, mask, device); error != 0) return error;
  if (mask.any(qp::kMaskAv)) {
    if (const int error = translate(from.ah_attr, device.gids(), to.path); error != 0) return error;
    if (net::is_multicast(to.path.destination)) return refused(Reason::kMulticast);
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
