#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce {

/// Every counter of the stack: name, label, unit and help, one line each. Adding a counter is adding a line.
// clang-format off
#define UROCE_COUNTERS(X)                                                                                                   \
  X(kRxFrames, "rx_frames", "frames", "Received from the port")                                                             \
  X(kRxBytes, "rx_bytes", "bytes", "Received from the port, with Ethernet headers")                                         \
  X(kTxFrames, "tx_frames", "frames", "Given to the port")                                                                  \
  X(kTxBytes, "tx_bytes", "bytes", "Given to the port, with Ethernet headers")                                              \
  X(kTxNoBuffer, "tx_no_buffer", "times", "The port had no buffer for a frame to send: it is sent later")                   \
  X(kTxPortFull, "tx_port_full", "times", "The port took no more frames: the rest is sent later")                           \
  X(kRxHandedOver, "rx_handed_over", "frames", "Passed to the poller that owns their queue pair")                           \
  X(kQpMoved, "qp_moved", "times", "Queue pairs that came from another poller, after their packets")                       \
  X(kRxHandOverFull, "rx_hand_over_full", "frames", "Dropped, as another poller or this one took none in time")             \
  X(kRxNotRoce, "rx_not_roce", "frames", "Neither RoCEv2 nor ARP, neighbour discovery or echo")                             \
  X(kDropNeighbour, "drop_neighbour", "frames", "ARP or neighbour discovery that was wrong or of no use")                   \
  X(kRxToPrograms, "rx_to_programs", "frames", "Passed to programs that share the device")                                  \
  X(kGroupQueries, "group_queries", "frames", "Queries about multicast groups (IGMP, MLD)")                                 \
  X(kGroupReports, "group_reports", "frames", "Reports of multicast groups that were sent (IGMP, MLD)")                     \
  X(kDropGroupQuery, "drop_group_query", "frames", "Queries about multicast groups that were wrong or of no use")           \
  X(kEchoAnswered, "echo_answered", "frames", "ICMP echo requests that were answered")                                      \
  X(kAddressConflict, "address_conflict", "times", "Another host claimed one of our addresses")                             \
  X(kDropTruncated, "drop_truncated", "frames", "Shorter than their headers say")                                           \
  X(kDropEthernet, "drop_ethernet", "frames", "Ethernet header that cannot be for this port")                               \
  X(kDropIpHeader, "drop_ip_header", "frames", "IP header that is wrong")                                                   \
  X(kDropIpChecksum, "drop_ip_checksum", "frames", "IPv4 header with a wrong checksum")                                     \
  X(kDropFragment, "drop_fragment", "frames", "Fragments of IP packets")                                                    \
  X(kDropUdpLength, "drop_udp_length", "frames", "UDP length that contradicts the IP header")                               \
  X(kDropUdpChecksum, "drop_udp_checksum", "frames", "UDP with a wrong checksum")                                           \
  X(kDropTransportVersion, "drop_transport_version", "packets", "Transport version of the BTH other than 0")                \
  X(kDropOpcode, "drop_opcode", "packets", "Opcode that is none")                                                           \
  X(kDropPad, "drop_pad", "packets", "Pad count that the opcode or the length forbids")                                     \
  X(kDropPayloadLength, "drop_payload_length", "packets", "Payload longer or shorter than the opcode allows")               \
  X(kDropIcrc, "drop_icrc", "packets", "Damaged: the ICRC does not match")                                                  \
  X(kDropNotOurAddress, "drop_not_our_address", "frames", "For an address that is none of ours")                            \
  X(kDropVlan, "drop_vlan", "frames", "In a VLAN that the address does not live in")                                        \
  X(kDropUnknownQp, "drop_unknown_qp", "packets", "For a queue pair that does not exist")                                   \
  X(kDropUnknownSrq, "drop_unknown_srq", "packets", "For an XRC shared receive queue that does not exist")                  \
  X(kDropPartitionKey, "drop_partition_key", "packets", "P_Key that does not match")                                        \
  X(kDropWrongPeer, "drop_wrong_peer", "packets", "For a connected queue pair, but not from its peer")                      \
  X(kDropQkey, "drop_qkey", "packets", "Datagrams with another Q_Key")                                                      \
  X(kDropNoGroup, "drop_no_group", "packets", "For a multicast group without members here")                                 \
  X(kDropService, "drop_service", "packets", "Opcode of another service than the queue pair's")                             \
  X(kDropNoMemory, "drop_no_memory", "packets", "For a queue pair that is first used, and that there is no memory for")     \
  X(kDropQpState, "drop_qp_state", "packets", "For a queue pair that does not receive in its state")                        \
  X(kDropStalled, "drop_stalled", "packets", "Too many while their queue pair waited for other pollers")                    \
  X(kDropStaleAck, "drop_stale_ack", "packets", "Acknowledgements of what was acknowledged before")                         \
  X(kDropSequence, "drop_sequence", "packets", "Out of order: packets before them are missing")                             \
  X(kRxEarly, "rx_early", "packets", "Came before others of lower number, and were kept")                                   \
  X(kRxCe, "rx_ce", "packets", "Marked on their way: congestion experienced")                                               \
  X(kTxCnp, "tx_cnp", "packets", "Congestion notifications sent")                                                           \
  X(kRxCnp, "rx_cnp", "packets", "Congestion notifications received")                                                       \
  X(kDropBadAck, "drop_bad_ack", "packets", "Responses that answer nothing that was sent")                                  \
  X(kDropResources, "drop_resources", "packets", "READs and atomics repeated too late, and FLUSHes without a resource")     \
  X(kDropNoReceive, "drop_no_receive", "messages", "UD and UC: no receive request was posted")                              \
  X(kDropTooLong, "drop_too_long", "messages", "Longer than the receive request or the path MTU")                           \
  X(kDropRemoteAccess, "drop_remote_access", "messages", "UC: a key or address that does not allow it")                     \
  X(kDropInvalidRequest, "drop_invalid_request", "messages", "UC: a request that is not valid")                             \
  X(kDuplicateRequest, "duplicate_request", "packets", "Requests received again, answered without a second effect")         \
  X(kRequestsExecuted, "requests_executed", "packets", "Requests executed")                                                 \
  X(kAtomicsExecuted, "atomics_executed", "messages", "Atomic operations executed")                                         \
  X(kCreditProbes, "credit_probes", "packets", "Sent without credit, to learn of new credit")                               \
  X(kSequenceNakSent, "nak_sequence_sent", "packets", "NAK: PSN sequence error")                                            \
  X(kInvalidRequestNakSent, "nak_invalid_request_sent", "packets", "NAK: invalid request")                                  \
  X(kAccessNakSent, "nak_remote_access_sent", "packets", "NAK: remote access error")                                        \
  X(kOperationalNakSent, "nak_remote_operational_sent", "packets", "NAK: remote operational error")                         \
  X(kRnrNakSent, "rnr_nak_sent", "packets", "NAK: receiver not ready")                                                      \
  X(kSequenceNakReceived, "nak_sequence_received", "packets", "NAK: PSN sequence error")                                    \
  X(kInvalidRequestNakReceived, "nak_invalid_request_received", "packets", "NAK: invalid request")                          \
  X(kAccessNakReceived, "nak_remote_access_received", "packets", "NAK: remote access error")                                \
  X(kOperationalNakReceived, "nak_remote_operational_received", "packets", "NAK: remote operational error")                 \
  X(kRnrNakReceived, "rnr_nak_received", "packets", "NAK: receiver not ready")                                              \
  X(kImpliedNak, "implied_nak", "times", "An answer passed a READ or atomic that was not answered")                         \
  X(kAckTimeout, "ack_timeout", "times", "No acknowledgement came in time")                                                 \
  X(kRetransmittedPackets, "retransmitted_packets", "packets", "Sent again")                                                \
  X(kRetryExceeded, "retry_exceeded", "times", "A queue pair gave up, as retries were used up")                             \
  X(kCqOverrun, "cq_overrun", "times", "A completion queue was full")                                                       \
  X(kLocalProtectionError, "local_protection_error", "times", "Memory of our own that may not be used so")                  \
  X(kMemoryGone, "memory_gone", "times", "Registered memory was unmapped by its owner")                                     \
  X(kEngineCopies, "engine_copies", "copies", "Done by a copy engine")                                                      \
  X(kEngineFailed, "engine_failed", "copies", "Refused or failed by a copy engine")                                         \
  X(kUnattendedMs, "unattended_ms", "milliseconds", "Time in which no thread turned the poller")                            \
  X(kFaultLost, "fault_lost", "packets", "Ordered by uroce fault: lost")                                                    \
  X(kFaultDelayed, "fault_delayed", "packets", "Ordered by uroce fault: delayed")                                           \
  X(kFaultReordered, "fault_reordered", "packets", "Ordered by uroce fault: held back")                                     \
  X(kFaultDuplicated, "fault_duplicated", "packets", "Ordered by uroce fault: received twice")                              \
  X(kFaultCorrupted, "fault_corrupted", "packets", "Ordered by uroce fault: damaged")                                       \
  X(kFaultMarked, "fault_marked", "packets", "Ordered by uroce fault: marked")                                              \
  X(kFaultRefused, "fault_refused", "requests", "Ordered by uroce fault: refused")                                          \
  X(kFaultOverflowed, "fault_overflowed", "packets", "Not delayed as ordered, as too many were held")
// clang-format on

enum class Counter : uint16_t {
#define X(name, label, unit, help) name,
  UROCE_COUNTERS(X)
#undef X
      kCount
};

inline constexpr size_t kCounterCount = static_cast<size_t>(Counter::kCount);

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
