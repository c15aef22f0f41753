#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/decode/rules.h"
#include "base/values/identifiers.h"
#include "wire/cm_message.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace uroce::decode {

/// A datagram of the connection manager, and whether its reserved bits are zeros.
struct CmDatagram {
  wire::CmMad mad;
  bool reserved_is_zero = true;
};

/// A frame as far as it can be understood by itself: what is left of it for following its connection.
struct Inspected {
  enum class Kind : uint8_t {
    kOther,      // another protocol
    kMalformed,  // RoCEv2 that says of itself what it is not; `findings` say how
    kCut,        // RoCEv2 of which the capture has too little
    kRoce,
  };
  Kind kind = Kind::kOther;
  bool whole = false;      // every byte was captured, and the ICRC is right
  bool truncated = false;  // the capture has only its first bytes
  bool ipv4 = false;
  uint16_t ip_identification = 0;  // of IPv4
  uint32_t bytes = 0;              // of the frame; of a segment with headers of its own
  uint32_t payload_bytes = 0;
  uint32_t icrc = 0;         // as received
  uint64_t number = 0;       // of the frame
  uint32_t segment = 0;      // of an aggregate of several packets, from 1; 0: the frame is of one packet
  uint32_t frame_bytes = 0;  // captured or not
  uint64_t lost_before = 0;  // frames that the capture says it lost before this one
  int64_t time_ns = 0;
  const wire::OpcodeRow* row = nullptr;
  Gid source{};
  Gid destination{};
  wire::Bth bth;
  wire::Aeth aeth;
  wire::Reth reth;  // address and key of an atomic, too
  QpNumber source_qp{};
  std::unique_ptr<CmDatagram> cm;
  std::string text;  // a line about it, if one was wanted
  Findings findings;
};

}  // namespace uroce::decode
