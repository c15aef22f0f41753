#include <cerrno>

#include "qp/attributes.h"

namespace uroce::qp {

namespace {

/// One legal transition: the attributes that it must be given and those that it may be given
/// (ibv_modify_qp(3)).
struct Transition {
  Type type;
  State from;
  State to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kPathMigration = kMaskAltPath | kMaskPathMigState;
constexpr uint32_t kInitConnected = kMaskPkeyIndex | kMaskPort | kMaskAccessFlags;
constexpr uint32_t kInitDatagram = kMaskPkeyIndex | kMaskPort | kMaskQkey;
constexpr uint32_t kRtrConnected = kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
constexpr uint32_t kRtrOptional = kMaskAltPath | kMaskAccessFlags | kMaskPkeyIndex;
constexpr uint32_t kRtsUc = kMaskCurrentState | kMaskAccessFlags | kPathMigration;
constexpr uint32_t kRtsRc = kRtsUc | kMaskMinRnrTimer;
constexpr uint32_t kResponderConnected = kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
constexpr uint32_t kRequesterConnected =
    kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic;
constexpr uint32_t kRtsUd = kMaskCurrentState | kMaskQkey;
constexpr uint32_t kSqdUc = kMaskAv | kMaskPkeyIndex | kMaskAccessFlags | kPathMigration;
constexpr uint32_t kSqdInitiator =
    kSqdUc | kMaskPort | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
constexpr uint32_t kSqdTarget = kSqdUc | kMaskPort | kMaskTimeout | kResponderConnected;
constexpr uint32_t kSqdRc = kSqdInitiator | kSqdTarget;

/// The transitions that take attributes. Those to RESET and ERR, which take none, follow from a rule below.
constexpr Transition kTransitions[] = {
    {Type::kRc, State::kReset, State::kInit, kInitConnected, 0},
    {Type::kRc, State::kInit, State::kInit, 0, kInitConnected},
    {Type::kRc, State::kInit, State::kRtr, kRtrConnected | kResponderConnected, kRtrOptional},
    {Type::kRc, State::kRtr, State::kRts, kRequesterConnected, kRtsRc},
    {Type::kRc, State::kRts, State::kRts, 0, kRtsRc},
    {Type::kRc, State::kRts, State::kSqd, 0, kMaskEnSqdAsyncNotify},
    {Type::kRc, State::kSqd, State::kRts, 0, kRtsRc},
    {Type::kRc, State::kSqd, State::kSqd, 0, kSqdRc},

    {Type::kUc, State::kReset, State::kInit, kInitConnected, 0},
    {Type::kUc, State::kInit, State::kInit, 0, kInitConnected},
    {Type::kUc, State::kInit, State::kRtr, kRtrConnected, kRtrOptional},
    {Type::kUc, State::kRtr, State::kRts, kMaskSqPsn, kRtsUc},
    {Type::kUc, State::kRts, State::kRts, 0, kRtsUc},
    {Type::kUc, State::kRts, State::kSqd, 0, kMaskEnSqdAsyncNotify},
    {Type::kUc, State::kSqd, State::kRts, 0, kRtsUc},
    {Type::kUc, State::kSqd, State::kSqd, 0, kSqdUc},
    {Type::kUc, State::kSqe, State::kRts, 0, kMaskCurrentState | kMaskAccessFlags},

    // The sending half of RC, and the receiving one.
    {Type::kXrcSend, State::kReset, State::kInit, kInitConnected, 0},
    {Type::kXrcSend, State::kInit, State::kInit, 0, kInitConnected},
    {Type::kXrcSend, State::kInit, State::kRtr, kRtrConnected, kRtrOptional},
    {Type::kXrcSend, State::kRtr, State::kRts, kRequesterConnected, kRtsUc},
    {Type::kXrcSend, State::kRts, State::kRts, 0, kRtsUc},
    {Type::kXrcSend, State::kRts, State::kSqd, 0, kMaskEnSqdAsyncNotify},
    {Type::kXrcSend, State::kSqd, State::kRts, 0, kRtsUc},
    {Type::kXrcSend, State::kSqd, State::kSqd, 0, kSqdInitiator},

    {Type::kXrcReceive, State::kReset, State::kInit, kInitConnected, 0},
    {Type::kXrcReceive, State::kInit, State::kInit, 0, kInitConnected},
    {Type::kXrcReceive, State::kInit, State::kRtr, kRtrConnected | kResponderConnected, kRtrOptional},
    {Type::kXrcReceive, State::kRtr, State::kRts, kMaskTimeout | kMaskSqPsn, kRtsRc},
    {Type::kXrcReceive, State::kRts, State::kRts, 0, kRtsRc},
    {Type::kXrcReceive, State::kRts, State::kSqd, 0, kMaskEnSqdAsyncNotify},
    {Type::kXrcReceive, State::kSqd, State::kRts, 0, kRtsRc},
    {Type::kXrcReceive, State::kSqd, State::kSqd, 0, kSqdTarget},

    {Type::kUd, State::kReset, State::kInit, kInitDatagram, 0},
    {Type::kUd, State::kInit, State::kInit, 0, kInitDatagram},
    {Type::kUd, State::kInit, State::kRtr, 0, kMaskPkeyIndex | kMaskQkey},
    {Type::kUd, State::kRtr, State::kRts, kMaskSqPsn, kRtsUd},
    {Type::kUd, State::kRts, State::kRts, 0, kRtsUd},
    {Type::kUd, State::kRts, State::kSqd, 0, kMaskEnSqdAsyncNotify},
    {Type::kUd, State::kSqd, State::kRts, 0, kRtsUd},
    {Type::kUd, State::kSqd, State::kSqd, 0, kMaskPkeyIndex | kMaskQkey},
    {Type::kUd, State::kSqe, State::kRts, 0, kRtsUd},
};

}  // namespace

int check_transition(Type type, State from, State to, uint32_t mask) {
  const uint32_t given = mask & ~static_cast<uint32_t>(kMaskState);
  // Every state goes to RESET; every state but RESET goes to ERR.
  if (to == State::kReset || (to == State::kErr && from != State::kReset)) return given == 0 ? 0 : EINVAL;
  for (const Transition& row : kTransitions) {
    if (row.type != type || row.from != from || row.to != to) continue;
    const bool complete = (row.required & ~given) == 0;
    const bool nothing_else = (given & ~(row.required | row.optional)) == 0;
    return complete && nothing_else ? 0 : EINVAL;
  }
  return EINVAL;
}

}  // namespace uroce::qp
