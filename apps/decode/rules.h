#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::decode {

/// Every rule that a capture can be seen to break: its name in tests/conformance/rules.txt, and what it asks
/// for.
// clang-format off
#define UROCE_DECODE_RULES(X)                                                                                        \
  X(kDropLengths, "drop-lengths", "a frame holds what its headers announce, each layer in the one before")            \
  X(kDropIp, "drop-ip", "IPv4 has a right checksum, no options and no fragments; UDP a right checksum or none")       \
  X(kDropTransport, "drop-transport", "the transport's version is 0, and the opcode exists")                         \
  X(kDropIcrc, "drop-icrc", "the ICRC is that of the packet")                                                        \
  X(kDropPartition, "drop-partition", "the partition is not 0")                                                      \
  X(kReservedFields, "reserved-fields", "reserved bits and pad bytes are sent as 0")                                 \
  X(kAckForm, "ack-form", "a response does not ask for an ACK")                                                      \
  X(kSolicited, "solicited", "the solicited bit is on the last packet of a message")                                 \
  X(kSyndromeKinds, "syndrome-kinds", "a syndrome is an ACK, an RNR NAK or a NAK that RC has; a response is no NAK")  \
  X(kAtomicAligned, "atomic-aligned", "an atomic's address is a multiple of 8")                                      \
  X(kAtomicWrite, "atomic-write", "ATOMIC WRITE is of 8 bytes at a multiple of 8")                                   \
  X(kCnp, "congestion-cnp", "a CNP has BECN, PSN 0 and 16 zero bytes")                                               \
  X(kPayload, "nak-payload", "First and Middle are of the path MTU, Last has 1 byte to that, Only 0 to that")        \
  X(kAnnouncedLength, "nak-announced-length", "a WRITE is as long as it announced, and no message above 2^31")       \
  X(kOrderOfPackets, "nak-order-of-packets", "a message is First, Middle..., Last, or Only")                         \
  X(kPsnExpected, "psn-expected", "the first request has the PSN that the connection manager agreed on")             \
  X(kPsnPerPacket, "psn-per-packet", "each packet has a PSN of its own; one that comes again is the same")           \
  X(kPsnBehindRead, "psn-behind-read", "the request behind a READ has the PSN behind its last response")             \
  X(kDuplicateRead, "psn-duplicate-read", "a READ that is asked for again lies in the original")                     \
  X(kAckImpossible, "ack-impossible", "a response is to a request that was sent, and of its kind")                   \
  X(kAckNamesResponse, "ack-explicit-response", "a READ or an atomic is acknowledged by its own response, and by no ACK")    \
  X(kResponseLength, "ack-response-length", "a READ is answered by as many bytes as were asked for")                 \
  X(kAfterError, "psn-after-error", "behind a NAK that ends the connection nothing is answered")                     \
  X(kRnrWait, "rnr-wait", "after an RNR NAK the requester waits its time")                                           \
  X(kCmDatagram, "cm-datagram", "a message of the connection manager is a datagram of 256 bytes of its class")       \
  X(kCmFields, "cm-fields", "reserved bits are 0, and fields have values that there are")                            \
  X(kCmHandshake, "cm-handshake", "REQ, REP, RTU; each names the other end's number, in one transaction")            \
  X(kCmEnd, "cm-end", "a DREQ names the queue pair that gets it; the DREP has its transaction")
// clang-format on

enum class Rule : uint8_t {
#define X(name, id, text) name,
  UROCE_DECODE_RULES(X)
#undef X
      kCount
};
inline constexpr size_t kRuleCount = static_cast<size_t>(Rule::kCount);

/// Its name in the conformance table: "psn-behind-read".
std::string_view name_of(Rule rule);
/// What it asks for, in a line.
std::string_view text_of(Rule rule);

/// A packet that breaks a rule.
struct Finding {
  Rule rule = Rule::kCount;
  uint64_t frame = 0;  // its number in the file, from 1; 0: that with which it was found
  std::string what;
};
using Findings = std::vector<Finding>;

}  // namespace uroce::decode
