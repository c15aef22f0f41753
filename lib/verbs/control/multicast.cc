#include <cerrno>
#include <cstring>

#include "net/derived_mac.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

/// 0, or why the queue pair cannot be a member of such a group. LIDs mean nothing on Ethernet.
int check(const VerbsQp& qp, const ibv_gid& from, Gid& group) {
  if (!qp.owner->alive()) return EIO;
  std::memcpy(group.bytes.data(), from.raw, group.bytes.size());
  return qp.type == qp::Type::kUd && net::is_multicast(group) ? 0 : EINVAL;
}

}  // namespace

extern "C" {

UROCE_EXPORT int uroce_ibv_attach_mcast(ibv_qp* face, const ibv_gid* gid, uint16_t) {
  if (!all_given(face, gid)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsQp& qp = object(face);
    Gid group;
    if (const int error = check(qp, *gid, group); error != 0) return error;
    return qp.owner->device->attach_group(*qp.handle, group);
  });
}

UROCE_EXPORT int uroce_ibv_detach_mcast(ibv_qp* face, const ibv_gid* gid, uint16_t) {
  if (!all_given(face, gid)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsQp& qp = object(face);
    Gid group;
    if (const int error = check(qp, *gid, group); error != 0) return error;
    return qp.owner->device->detach_group(*qp.handle, group);
  });
}

}  // extern "C"
