#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/values/result.h"

namespace uroce::verbs {

// Decision: a refused call writes its reason as one line of log level "info"; the errno alone says too
// little. All sentences stand in one table, so that each can be tested and none is written twice. Cost: an
// argument at each refusal, and nothing for a call that succeeds.

/// Why a call is refused.
enum class Reason : uint8_t {
  kNotGlobal,
  kAddressPort,
  kSourceGid,
  kServiceLevel,
  kDestination,
  kFamilies,
  kMulticast,
  kUnknownAttributes,
  kUnsupportedAttributes,
  kState,
  kCurrentState,
  kAccessFlags,
  kPkeyIndex,
  kPort,
  kPathMtu,
  kTimeout,
  kMinRnrTimer,
  kRetryCount,
  kRnrRetry,
  kReadsSent,
  kReadsAnswered,
  kDestinationQp,
  kTransition,
  kQpType,
  kRawPacket,
  kSharedReceives,
  kSendCq,
  kReceiveCq,
  kSendRequests,
  kReceiveRequests,
  kSendSegments,
  kReceiveSegments,
  kInlineBytes,
};

struct Refusal {
  Reason reason;
  int error;
  std::string_view sentence;  // {0} is the caller's value, {1} the limit
};

/// A row for each reason, in their order.
inline constexpr auto kRefusals = std::to_array<Refusal>({
    {Reason::kNotGlobal, EINVAL,
     "ah_attr.is_global is {0}; RoCE needs a GID index, as with -g 1 of ibv_rc_pingpong"},
    {Reason::kAddressPort, EINVAL, "ah_attr.port_num is {0}; a device has port 1 alone"},
    {Reason::kSourceGid, EINVAL,
     "ah_attr.grh.sgid_index is {0}, where the device has no GID; ibv_devinfo -v lists them"},
    {Reason::kServiceLevel, EINVAL, "ah_attr.sl is {0}; RoCE has the priorities 0 to 7"},
    {Reason::kDestination, EINVAL, "ah_attr.grh.dgid is no address of a host or group; take the peer's GID"},
    {Reason::kFamilies, EINVAL,
     "ah_attr.grh.dgid and the GID of sgid_index {0} are not both IPv4 or both IPv6; choose another index"},
    {Reason::kMulticast, EINVAL, "modify_qp: ah_attr.grh.dgid is a multicast group; only UD sends to groups"},
    {Reason::kUnknownAttributes, EINVAL, "modify_qp: attr_mask {0:#x} has bits that verbs.h does not have"},
    {Reason::kUnsupportedAttributes, EOPNOTSUPP,
     "modify_qp: attr_mask {0:#x} asks for an alternate path, other capacities or a rate limit, which uroce "
     "does not have"},
    {Reason::kState, EINVAL, "modify_qp: qp_state {0} is no state of a queue pair"},
    {Reason::kCurrentState, EINVAL, "modify_qp: cur_qp_state {0} is no state of a queue pair"},
    {Reason::kAccessFlags, EINVAL, "modify_qp: qp_access_flags {0:#x} has a flag that no queue pair has"},
    {Reason::kPkeyIndex, EINVAL, "modify_qp: pkey_index is {0}; the device has {1} P_Keys, counted from 0"},
    {Reason::kPort, EINVAL, "modify_qp: port_num is {0}; a device has port 1 alone"},
    {Reason::kPathMtu, EINVAL, "modify_qp: path_mtu is {0}; the port has 1 (256 bytes) to {1}"},
    {Reason::kTimeout, EINVAL, "modify_qp: timeout is {0}; the most is {1}"},
    {Reason::kMinRnrTimer, EINVAL, "modify_qp: min_rnr_timer is {0}; the most is {1}"},
    {Reason::kRetryCount, EINVAL, "modify_qp: retry_cnt is {0}; the most is {1}"},
    {Reason::kRnrRetry, EINVAL, "modify_qp: rnr_retry is {0}; the most is {1}, for ever"},
    {Reason::kReadsSent, EINVAL, "modify_qp: max_rd_atomic is {0}; the most is {1}, max_qp_init_rd_atom"},
    {Reason::kReadsAnswered, EINVAL, "modify_qp: max_dest_rd_atomic is {0}; the most is {1}, max_qp_rd_atom"},
    {Reason::kDestinationQp, EINVAL, "modify_qp: dest_qp_num is {0:#x}; numbers have 24 bits"},
    {Reason::kTransition, EINVAL,
     "modify_qp: attr_mask {0:#x} does not fit a transition from state {1}; ibv_modify_qp(3) lists what each "
     "transition needs and allows"},
    {Reason::kQpType, EINVAL, "create_qp: qp_type is {0}; there are RC, UC, UD and XRC"},
    {Reason::kRawPacket, EOPNOTSUPP,
     "queue pairs of raw packets (IBV_QPT_RAW_PACKET) are not supported: use DPDK or AF_PACKET for frames "
     "that are not RoCE"},
    {Reason::kSharedReceives, EINVAL, "create_qp: srq is of another context, or of XRC"},
    {Reason::kSendCq, EINVAL, "create_qp: send_cq is NULL or of another context than pd"},
    {Reason::kReceiveCq, EINVAL, "create_qp: recv_cq is NULL or of another context than pd"},
    {Reason::kSendRequests, EINVAL, "create_qp: cap.max_send_wr is {0}; the most is {1}"},
    {Reason::kReceiveRequests, EINVAL, "create_qp: cap.max_recv_wr is {0}; the most is {1}"},
    {Reason::kSendSegments, EINVAL, "create_qp: cap.max_send_sge is {0}; the most is {1}"},
    {Reason::kReceiveSegments, EINVAL, "create_qp: cap.max_recv_sge is {0}; the most is {1}"},
    {Reason::kInlineBytes, EINVAL, "create_qp: cap.max_inline_data is {0}; the most is {1}"},
});

constexpr std::string_view sentence_of(Reason reason) {
  return kRefusals[static_cast<size_t>(reason)].sentence;
}

/// Writes the sentence, if lines of failures are wanted. Returns the errno.
int refused(Reason reason, uint64_t value = 0, uint64_t limit = 0);

/// "NULL and errno" of a call that the stack refused; its message is written likewise.
decltype(nullptr) fail(std::string_view call, const Error& error);

}  // namespace uroce::verbs
