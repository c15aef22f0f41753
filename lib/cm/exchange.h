#pragma once

#include "cm/connection.h"
#include "cm/state_table.h"

namespace uroce::cm {

/// Whether a message that names the connection bears the transaction id of the exchange that it is part of.
/// The sender of the first message chooses the id: the one of a REQ (for MRA, REP, RTU and REJ, too), of a
/// DREQ (DREP), of a SIDR_REQ (SIDR_REP), of a LAP (APR). What is sent again keeps it. A stranger that
/// guesses numbers of connections ends and answers nothing. A REQ that comes again is compared, too, but for
/// one that meets an ended connection: a peer that began anew may use its number again, and has to be
/// refused.
constexpr bool bears_transaction(const Connection& connection, Incoming incoming, uint64_t transaction) {
  switch (incoming) {
    case Incoming::kReq:
      return connection.state == State::kTimewait || transaction == connection.request_transaction;
    case Incoming::kMra:
    case Incoming::kRep:
    case Incoming::kRtu:
    case Incoming::kSidrRep:
      return transaction == connection.request_transaction;
    case Incoming::kRej:
      // A peer that gives up its REP may do so after our DREQ.
      return transaction == connection.request_transaction ||
             (connection.state == State::kDreqSent && transaction == connection.transaction);
    case Incoming::kDrep:
      // Linux answers with the REQ's in timewait (cm_dreq_handler).
      return transaction == connection.transaction || transaction == connection.request_transaction;
    case Incoming::kDreq:
    case Incoming::kLap:
    case Incoming::kApr:  // none is awaited
      return true;
  }
  return false;
}

}  // namespace uroce::cm
