#pragma once

#include <cstdint>

#include "base/values/sequence_number.h"

namespace uroce::copy {

/// A queue pair that places messages derives from it, and finds itself in what Placer::commit() returns.
/// Never called here.
class MessageOwner {
 protected:
  ~MessageOwner() = default;
};

/// Which message bytes belong to, in the terms of the owner; handed back when they are lost.
struct MessageMark {
  enum class Kind : uint8_t { kSend, kWrite, kRead };

  MessageOwner* owner = nullptr;
  Kind kind = Kind::kWrite;
  bool reported = false;     // a completion of its own was or will be pushed ...
  uint32_t completions = 0;  // ... at or behind this position of its completion queue's lane
  Psn psn;                   // of the packet
  uint32_t msn = 0;          // messages performed before it, or READs completed
  uint64_t wr_id = 0;
};

}  // namespace uroce::copy
