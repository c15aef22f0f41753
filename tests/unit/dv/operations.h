#pragma once

#include <functional>

#include "kinds.h"

namespace uroce::verbs_test {

// What can be done with and to a region. Each begins and ends with both ends connected, looks whether exactly
// the right bytes have moved, and none when it is refused, and leaves the region for the next but where it is
// told otherwise.

Outcome local_read(Parties& parties, Region& region);    // a SEND of its bytes
Outcome local_write(Parties& parties, Region& region);   // a receive into it
Outcome remote_write(Parties& parties, Region& region);  // the peer's WRITE
Outcome remote_read(Parties& parties, Region& region);
Outcome send_invalidate(Parties& parties, Region& region);  // the peer's SEND with invalidate
Outcome local_invalidate(Parties& parties, Region& region);
Outcome register_again(Parties& parties, Region& region);  // REG_MR
/// A window of type 2B is bound over it, and ended; a window itself is bound anew.
Outcome bind(Parties& parties, Region& region);
/// The call for its kind; afterwards it has ended, unless it was refused.
Outcome end(Parties& parties, Region& region);
/// ibv_rereg_mr to the rights that it has.
Outcome reregister(Parties& parties, Region& region);

// Outcomes.
inline constexpr Outcome kDone{};
/// The owner's key does not work locally: nothing leaves it.
inline constexpr Outcome kLocal{.own = IBV_WC_LOC_PROT_ERR};
/// Nor for a receive: the peer's SEND is refused.
inline constexpr Outcome kRecv{.own = IBV_WC_LOC_PROT_ERR, .peer = IBV_WC_REM_OP_ERR};
/// The peer gets a NAK, remote access error; of the owner only the queue pair knows.
inline constexpr Outcome kNak{.peer = IBV_WC_REM_ACCESS_ERR};
/// The same for a key that cannot be invalidated; the receive that its SEND took fails.
inline constexpr Outcome kKept{.own = IBV_WC_REM_INV_REQ_ERR, .peer = IBV_WC_REM_ACCESS_ERR};
/// "Memory management operation error".
inline constexpr Outcome kDenied{.own = IBV_WC_MW_BIND_ERR};
inline constexpr Outcome kNone{.error = kNoCall};
constexpr Outcome failed(int error) { return {.error = error}; }

}  // namespace uroce::verbs_test
