#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uroce {

/// Every counter of the stack: name and label, one line each. Adding a counter is adding a line.
// clang-format off
#define UROCE_COUNTERS(X)                          \
  X(kRxFrames, "rx_frames")                        \
  X(kRxBytes, "rx_bytes")                          \
  X(kTxFrames, "tx_frames")                        \
  X(kTxBytes, "tx_bytes")                          \
  X(kTxNoBuffer, "tx_no_buffer")                   \
  X(kTxPortFull, "tx_port_full")                   \
  X(kRxHandedOver, "rx_handed_over")               \
  X(kRxHandOverFull, "rx_hand_over_full")          \
  X(kRxNotRoce, "rx_not_roce")                     \
  X(kDropNeighbour, "drop_neighbour")              \
  X(kRxToPrograms, "rx_to_programs")               \
  X(kEchoAnswered, "echo_answered")                \
  X(kAddressConflict, "address_conflict")          \
  X(kDropTruncated, "drop_truncated")              \
  X(kDropEthernet, "drop_ethernet")                \
  X(kDropIpHeader, "drop_ip_header")               \
  X(kDropIpChecksum, "drop_ip_checksum")           \
  X(kDropFragment, "drop_fragment")                \
  X(kDropUdpLength, "drop_udp_length")             \
  X(kDropUdpChecksum, "drop_udp_checksum")         \
  X(kDropTransportVersion, "drop_transport_version") \
  X(kDropOpcode, "drop_opcode")                    \
  X(kDropPad, "drop_pad")                          \
  X(kDropPayloadLength, "drop_payload_length")     \
  X(kDropIcrc, "drop_icrc")                        \
  X(kDropNotOurAddress, "drop_not_our_address")    \
  X(kDropVlan, "drop_vlan")                        \
  X(kDropUnknownQp, "drop_unknown_qp")             \
  X(kDropUnknownSrq, "drop_unknown_srq")           \
  X(kDropPartitionKey, "drop_partition_key")       \
  X(kDropWrongPeer, "drop_wrong_peer")             \
  X(kDropQkey, "drop_qkey")                        \
  X(kDropNoGroup, "drop_no_group")                 \
  X(kDropService, "drop_service")                  \
  X(kDropQpState, "drop_qp_state")                 \
  X(kDropStalled, "drop_stalled")                  \
  X(kDropStaleAck, "drop_stale_ack")               \
  X(kDropSequence, "drop_sequence")                \
  X(kRxEarly, "rx_early")                          \
  X(kRxCe, "rx_ce")                                \
  X(kTxCnp, "tx_cnp")                              \
  X(kRxCnp, "rx_cnp")                              \
  X(kDropBadAck, "drop_bad_ack")                   \
  X(kDropResources, "drop_resources")              \
  X(kDropNoReceive, "drop_no_receive")             \
  X(kDropTooLong, "drop_too_long")                 \
  X(kDropRemoteAccess, "drop_remote_access")       \
  X(kDropInvalidRequest, "drop_invalid_request")   \
  X(kDuplicateRequest, "duplicate_request")        \
  X(kRequestsExecuted, "requests_executed")        \
  X(kAtomicsExecuted, "atomics_executed")          \
  X(kCreditProbes, "credit_probes")                \
  X(kSequenceNakSent, "nak_sequence_sent")         \
  X(kInvalidRequestNakSent, "nak_invalid_request_sent") \
  X(kAccessNakSent, "nak_remote_access_sent")      \
  X(kOperationalNakSent, "nak_remote_operational_sent") \
  X(kRnrNakSent, "rnr_nak_sent")                   \
  X(kSequenceNakReceived, "nak_sequence_received") \
  X(kInvalidRequestNakReceived, "nak_invalid_request_received") \
  X(kAccessNakReceived, "nak_remote_access_received") \
  X(kOperationalNakReceived, "nak_remote_operational_received") \
  X(kRnrNakReceived, "rnr_nak_received")           \
  X(kImpliedNak, "implied_nak")                    \
  X(kAckTimeout, "ack_timeout")                    \
  X(kRetransmittedPackets, "retransmitted_packets") \
  X(kRetryExceeded, "retry_exceeded")              \
  X(kCqOverrun, "cq_overrun")                      \
  X(kLocalProtectionError, "local_protection_error") \
  X(kMemoryGone, "memory_gone")                    \
  X(kEngineCopies, "engine_copies")                \
  X(kEngineFailed, "engine_failed")                \
  X(kUnattendedMs, "unattended_ms")                \
  X(kFaultLost, "fault_lost")                      \
  X(kFaultDelayed, "fault_delayed")                \
  X(kFaultReordered, "fault_reordered")            \
  X(kFaultDuplicated, "fault_duplicated")          \
  X(kFaultCorrupted, "fault_corrupted")            \
  X(kFaultMarked, "fault_marked")                  \
  X(kFaultRefused, "fault_refused")                \
  X(kFaultOverflowed, "fault_overflowed")
// clang-format on

enum class Counter : uint16_t {
#define X(name, label) name,
  UROCE_COUNTERS(X)
#undef X
      kCount
};

inline constexpr size_t kCounterCount = static_cast<size_t>(Counter::kCount);

std::string_view counter_label(Counter counter);

/// One poller's counters: written by the thread that turns the poller, read (possibly a little late) by
/// anyone.
class alignas(64) Counters {
 public:
  void add(Counter counter, uint64_t n = 1) {
    uint64_t& value = values_[static_cast<size_t>(counter)];
    // A plain load and a relaxed store: there is one writer, so no read-modify-write is needed; readers
    // only need a whole value.
    __atomic_store_n(&value, value + n, __ATOMIC_RELAXED);
  }
  [[nodiscard]] uint64_t read(Counter counter) const {
    return __atomic_load_n(&values_[static_cast<size_t>(counter)], __ATOMIC_RELAXED);
  }

 private:
  std::array<uint64_t, kCounterCount> values_{};
};

}  // namespace uroce
