#pragma once

#include <cstddef>
#include <span>

#include "base/tables/block_code.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "port/tx_batch.h"
#include "wire/packet.h"

namespace uroce::engine {

/// The programs that share a device with the process that has its port: their queue pairs are found here when
/// they are not found among the device's own. Everything is called in turns of poller 0 and must not block.
class FrameSwitch {
 public:
  /// A frame on its way to a program. `packet` is parsed, and its ICRC not verified; both point into memory
  /// that is the caller's after the return.
  struct Arrival {
    const wire::Packet& packet;
    std::span<const std::byte> frame;
    bool has_icrc;
    BlockCode sender = {};  // the program that sent it, if one did
  };

  /// To one of our addresses, and a queue pair that is none of the device's own: or to queue pair 1. True: a
  /// program has got a copy, or the frame was dropped on the way to one; false: it is no program's.
  virtual bool deliver(const Arrival& arrival) = 0;
  /// A copy for each program that is a member of the group. True: there is one.
  virtual bool deliver_to_group(const Arrival& arrival) = 0;

  /// Puts frames of programs into the batch as far as there is room, each program's in turn: to_self for
  /// those to one of our addresses, to_group for those to a group. What a program may not send is dropped.
  /// How many frames were looked at.
  virtual size_t collect(Instant now, port::TxBatch& batch) = 0;

 protected:
  ~FrameSwitch() = default;
};

}  // namespace uroce::engine
