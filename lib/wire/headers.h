#pragma once

#include <cstdint>

#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "wire/opcode.h"

namespace uroce::wire {

/// Base transport header, every field but TVer (always 0) and the pad count (derived from the payload). The
/// order is such that it is read from the wire as one vector (transport.h).
struct Bth {
  Opcode opcode;
  bool solicited = false;
  bool migration = false;
  bool ack_request = false;
  uint16_t partition_key = 0xFFFF;
  bool fecn = false;
  bool becn = false;
  QpNumber destination;
  Psn psn;
  uint8_t pad = 0;  // parsed; ignored by emit, which derives it
};

struct Reth {
  uint64_t address = 0;
  MemoryKey rkey;
  uint32_t length = 0;
};

struct AtomicEth {
  uint64_t address = 0;
  MemoryKey rkey;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;
};

/// What an AETH says (lib/README.md, wire fact 6): bits 6:5 of the syndrome; its low five bits are `value`.
enum class AethKind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

/// NAK codes (the value of a kNak syndrome).
enum class NakCode : uint8_t {
  kSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperational = 3,
  kInvalidRdRequest = 4,
};

/// Credit code 31: no end-to-end credits.
inline constexpr uint8_t kNoCredits = 31;

struct Aeth {
  AethKind kind = AethKind::kAck;
  uint8_t value = kNoCredits;  // credit code, RNR timer code or NAK code
  uint32_t msn = 0;            // 24 bits

  static constexpr Aeth ack(uint32_t msn, uint8_t credits = kNoCredits) {
    return {AethKind::kAck, credits, msn & 0xFFFFFF};
  }
  static constexpr Aeth nak(NakCode code, uint32_t msn) {
    return {AethKind::kNak, static_cast<uint8_t>(code), msn & 0xFFFFFF};
  }
  static constexpr Aeth rnr(uint8_t timer_code, uint32_t msn) {
    return {AethKind::kRnrNak, static_cast<uint8_t>(timer_code & 31), msn & 0xFFFFFF};
  }
};

struct Deth {
  uint32_t qkey = 0;
  QpNumber source;
};

/// FLUSH extension header.
struct Feth {
  bool global_visibility = false;
  bool persistence = false;
  bool whole_region = false;  // selectivity: false = range, true = whole MR
};

/// A BTH with every extension header; which of them count is said by the opcode's HeaderSet.
struct Headers {
  Bth bth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  uint64_t atomic_original = 0;
  Deth deth;
  Feth feth;
  uint32_t immediate =
      0;  // opaque: the four bytes as they stand on the wire (network order), like ibv_wc.imm_data
  MemoryKey invalidate;
  uint32_t xrc_srq = 0;  // 24 bits
};

}  // namespace uroce::wire
