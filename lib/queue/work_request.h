#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "queue/operation.h"

namespace uroce::queue {

/// What lies behind a request to flush.
struct FlushOperation {
  bool global_visibility = false;
  bool persistence = false;
  bool whole_region = false;  // address and length do not count
};

/// One piece of local memory (shape of ibv_sge).
struct Segment {
  uint64_t address = 0;
  uint32_t length = 0;
  MemoryKey lkey;
};

/// What an atomic works on in the peer's memory.
inline constexpr uint32_t kAtomicBytes = 8;

/// The operands of an atomic, which lie in the slot of its request.
struct AtomicOperands {
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;
};

/// What is said beside the operation.
struct SendFlags {
  bool fence = false;
  bool signaled = false;
  bool solicited = false;
  bool inline_data = false;
};

/// A posted send work request as it lies in the send queue. The first group is written by the posting thread
/// before the request is published and only read afterwards; the second belongs to the owning poller.
struct SendRequest : SendFlags {
  uint16_t segments = 0;
  SendOperation operation = SendOperation::kSend;
  uint8_t part_shift = 0;  // of the second group: a READ of some packets is asked for in parts of 2^so many
  uint64_t wr_id = 0;
  uint64_t remote_address = 0;
  MemoryKey rkey;
  uint32_t immediate = 0;  // network order, as in ibv_send_wr
  MemoryKey invalidate;
  uint32_t length = 0;  // sum of the segments, or of the inline bytes

  Psn first_psn;         // set when the first packet is built
  uint32_t packets = 0;  // PSNs that the request takes; none: a local operation
};

/// A posted receive work request.
struct ReceiveRequest {
  uint64_t wr_id = 0;
  uint32_t length = 0;  // sum of the segments
  uint16_t segments = 0;
};

}  // namespace uroce::queue
