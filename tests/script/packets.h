#pragma once

#include <string>
#include <vector>

#include "stage.h"
#include "wire/packet.h"

namespace uroce::script {

// How packets are written: the operation by its name in the opcode table, in capitals with '_' between the
// words (`SEND_LAST_IMM`, for a packet of another service than the queue pair's `UC_SEND_LAST_IMM`), and
// options:
//
//   psn=N, psn=A..B (that many packets), A (AckReq), SE, mig_req= (1 but for UD), pkey=, qp=, fecn, becn
//   tos=N                             type of service, or traffic class
//   va=, rkey=, length=               RETH, AtomicETH; a region's name stands for its key, m+16 for an
//   address swap=, add=, compare=, value=     AtomicETH, AtomicAckETH ack, ack=CREDITS, nak=, rnr=,
//   syndrome=, msn= qkey=, src_qp=, imm=, invalidate=, srq=, global, persistence, whole bytes=N and data=
//   payload; data as in `memory`
//
// Only of what is sent to us: from=, to= (IP addresses), vlan=TCI, opcode=0xNN, set=PART+OFFSET:HEX,... (eth,
// ip, udp, bth: bytes of the frame, before checksum and ICRC), icrc=wrong, checksum=wrong, cut=N, grow=N.

/// The frames that a `<` line sends to `actor`.
std::vector<Bytes> frames_to(Line& line, Stage& stage, const Actor& actor);

/// What a `>` line expects of `actor`.
class ExpectedPackets {
 public:
  ExpectedPackets(Line& line, Stage& stage, const Actor& actor);

  [[nodiscard]] size_t count() const { return count_; }
  /// What is wrong with `frame` as number `index` of them, or nothing.
  [[nodiscard]] std::string compare(const Bytes& frame, size_t index) const;

 private:
  struct Value {
    std::string name;
    uint64_t value;
  };

  [[nodiscard]] std::string compare_header(const wire::Packet& packet, size_t index) const;
  [[nodiscard]] std::string compare_fields(const wire::Packet& packet) const;
  [[nodiscard]] std::string compare_payload(const wire::Packet& packet, size_t index) const;

  const wire::OpcodeRow* row_ = nullptr;
  size_t count_ = 1;
  std::optional<Psn> psn_;
  bool ack_request_ = false;
  bool solicited_ = false;
  bool becn_ = false;
  std::optional<uint8_t> traffic_class_;
  QpNumber destination_;
  Gid to_;
  bool has_aeth_ = false;
  bool has_credits_ = false;
  wire::Aeth aeth_;
  wire::Feth feth_;
  std::vector<Value> fields_;
  size_t bytes_ = 0;
  std::vector<Bytes> payloads_;  // empty: not said
};

/// A frame for people.
std::string text_of(const Bytes& frame);

}  // namespace uroce::script
