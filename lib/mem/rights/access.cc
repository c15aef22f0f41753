#include "mem/rights/access.h"

#include <cerrno>
#include <string>

namespace uroce::mem {
namespace {

constexpr Access kKnown = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kWindowBind |
                          kZeroBased | kOnDemand | kHugeTlb | kFlushGlobal | kFlushPersistent |
                          kOptionalRange;
constexpr Access kNotOffered = kOnDemand | kFlushPersistent;

}  // namespace

Status check_rights(Access access) {
  if (!kKnown.covers(access)) return Error{EINVAL, "unknown access flags " + std::to_string(access.bits())};
  if (access.any(kRemoteWrite | kRemoteAtomic) && !access.covers(kLocalWrite)) {
    return Error{EINVAL, "remote write or atomic access without local write access"};
  }
  if (access.any(kNotOffered)) {
    return Error{EOPNOTSUPP,
                 "access flags " + std::to_string((access & kNotOffered).bits()) + " are not supported"};
  }
  return {};
}

}  // namespace uroce::mem
