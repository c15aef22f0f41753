#include <cerrno>

#include "qp/attributes/attributes.h"

namespace uroce::qp {

namespace {

/// One legal transition: the attributes that it must be given and those that it may be given
/// (ibv_modify_qp(3)).
struct Transition {
  Type type;
  State from;
  State to;
  AttributeMask required;
  AttributeMask optional;
};

constexpr AttributeMask kPathMigration = kMaskAltPath | kMaskPathMigState;
constexpr AttributeMask kInitConnected = kMaskPkeyIndex | kMaskPort | kMaskAccessFlags;
constexpr AttributeMask kInitDatagram = kMaskPkeyIndex | kMaskPort | kMaskQkey;
constexpr AttributeMask kRtrConnected = kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
constexpr AttributeMask kRtrOptional = kMaskAltPath | kMaskAccessFlags | kMaskPkeyIndex;
constexpr AttributeMask kRtsUc = kMaskCurrentState | kMaskAccessFlags | kPathMigration;
constexpr AttributeMask kRtsRc = kRtsUc | kMaskMinRnrTimer;
constexpr AttributeMask kResponderConnected = kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
constexpr AttributeMask kRequesterConnected =
    kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic;
constexpr AttributeMask kRtsUd = kMaskCurrentState | kMaskQkey;
constexpr AttributeMask kSqdUc = kMaskAv | kMaskPkeyIndex | kMaskAccessFlags | kPathMigration;
constexpr AttributeMask kSqdInitiator =
    kSqdUc | kMaskPort | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
constexpr AttributeMask kSqdTarget = kSqdUc | kMaskPort | kMaskTimeout | kResponderConnected;
constexpr AttributeMask kSqdRc = kSqdInitiator | kSqdTarget;

/// The transitions that take attributes. Those to RESET and ERR, which take none, follow from a rule below.
constexpr Transition kTransitions[] = {
    {Type::kRc, State::kReset, State::kInit, kInitConnected, {}},
    {Type::kRc, State::kInit, State::kInit, {}, kInitConnected},
    {Type::kRc, State::kInit, State::kRtr, kRtrConnected | kResponderConnected, kRtrOptional},
    {Type::kRc, State::kRtr, State::kRts, kRequesterConnected, kRtsRc},
    {Type::kRc, State::kRts, State::kRts, {}, kRtsRc},
    {Type::kRc, State::kRts, State::kSqd, {}, kMaskEnSqdAsyncNotify},
    {Type::kRc, State::kSqd, State::kRts, {}, kRtsRc},
    {Type::kRc, State::kSqd, State::kSqd, {}, kSqdRc},

    {Type::kUc, State::kReset, State::kInit, kInitConnected, {}},
    {Type::kUc, State::kInit, State::kInit, {}, kInitConnected},
    {Type::kUc, State::kInit, State::kRtr, kRtrConnected, kRtrOptional},
    {Type::kUc, State::kRtr, State::kRts, kMaskSqPsn, kRtsUc},
    {Type::kUc, State::kRts, State::kRts, {}, kRtsUc},
    {Type::kUc, State::kRts, State::kSqd, {}, kMaskEnSqdAsyncNotify},
    {Type::kUc, State::kSqd, State::kRts, {}, kRtsUc},
    {Type::kUc, State::kSqd, State::kSqd, {}, kSqdUc},
    {Type::kUc, State::kSqe, State::kRts, {}, kMaskCurrentState | kMaskAccessFlags},

    // The sending half of RC, and the receiving one.
    {Type::kXrcSend, State::kReset, State::kInit, kInitConnected, {}},
    {Type::kXrcSend, State::kInit, State::kInit, {}, kInitConnected},
    {Type::kXrcSend, State::kInit, State::kRtr, kRtrConnected, kRtrOptional},
    {Type::kXrcSend, State::kRtr, State::kRts, kRequesterConnected, kRtsUc},
    {Type::kXrcSend, State::kRts, State::kRts, {}, kRtsUc},
    {Type::kXrcSend, State::kRts, State::kSqd, {}, kMaskEnSqdAsyncNotify},
    {Type::kXrcSend, State::kSqd, State::kRts, {}, kRtsUc},
    {Type::kXrcSend, State::kSqd, State::kSqd, {}, kSqdInitiator},

    {Type::kXrcReceive, State::kReset, State::kInit, kInitConnected, {}},
    {Type::kXrcReceive, State::kInit, State::kInit, {}, kInitConnected},
    {Type::kXrcReceive, State::kInit, State::kRtr, kRtrConnected | kResponderConnected, kRtrOptional},
    {Type::kXrcReceive, State::kRtr, State::kRts, kMaskTimeout | kMaskSqPsn, kRtsRc},
    {Type::kXrcReceive, State::kRts, State::kRts, {}, kRtsRc},
    {Type::kXrcReceive, State::kRts, State::kSqd, {}, kMaskEnSqdAsyncNotify},
    {Type::kXrcReceive, State::kSqd, State::kRts, {}, kRtsRc},
    {Type::kXrcReceive, State::kSqd, State::kSqd, {}, kSqdTarget},

    {Type::kUd, State::kReset, State::kInit, kInitDatagram, {}},
    {Type::kUd, State::kInit, State::kInit, {}, kInitDatagram},
    {Type::kUd, State::kInit, State::kRtr, {}, kMaskPkeyIndex | kMaskQkey},
    {Type::kUd, State::kRtr, State::kRts, kMaskSqPsn, kRtsUd},
    {Type::kUd, State::kRts, State::kRts, {}, kRtsUd},
    {Type::kUd, State::kRts, State::kSqd, {}, kMaskEnSqdAsyncNotify},
    {Type::kUd, State::kSqd, State::kRts, {}, kRtsUd},
    {Type::kUd, State::kSqd, State::kSqd, {}, kMaskPkeyIndex | kMaskQkey},
    {Type::kUd, State::kSqe, State::kRts, {}, kRtsUd},
};

}  // namespace

int check_transition(Type type, State from, State to, AttributeMask mask) {
  const AttributeMask given = mask.without(kMaskState);
  // Every state goes to RESET; every state but RESET goes to ERR.
  if (to == State::kReset || (to == State::kErr && from != State::kReset)) return given.empty() ? 0 : EINVAL;
  for (const Transition& row : kTransitions) {
    if (row.type != type || row.from != from || row.to != to) continue;
    const bool complete = given.covers(row.required);
    const bool nothing_else = (row.required | row.optional).covers(given);
    return complete && nothing_else ? 0 : EINVAL;
  }
  return EINVAL;
}

}  // namespace uroce::qp
