#pragma once

#include "cm/connection.h"

namespace uroce::cm {

/// What comes for a connection that is known.
enum class Incoming : uint8_t { kReq, kMra, kRej, kRep, kRtu, kDreq, kDrep, kLap, kApr, kSidrRep };
inline constexpr size_t kIncomingCount = 10;

enum class Action : uint8_t {
  kIgnore,
  kRepeat,        // the peer has not got what we sent last
  kAskForTime,    // MRA: the consumer has not decided yet
  kWait,          // the peer's MRA: it has not decided yet
  kRefused,       // event kRejected, and the end
  kReplied,       // event kReply
  kEstablished,   // event kEstablished
  kAnswerDreq,    // DREP, event kDisconnected, timewait
  kDrepReceived,  // event kDisconnected, timewait
  kRepeatDrep,    // DREP: the peer has not heard that it is over
  kRefusePath,    // APR: there are no alternate paths
  kStale,         // REJ: what the peer takes for alive is gone
  kResolved,      // event kServiceReply, and the end
};

/// State x message. kReq is a REQ that the connection was made by and that came again.
Action action_of(State state, Incoming incoming);

}  // namespace uroce::cm
