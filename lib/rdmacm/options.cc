#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

constexpr uint8_t kAckTimeoutMax = 31;

/// False: it has another size.
template <typename T>
bool read_value(const void* from, size_t length, T& value) {
  if (length != sizeof(T)) return false;
  std::memcpy(&value, from, sizeof(T));
  return true;
}

int set_option(Id& id, int level, int name, const void* from, size_t length) {
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) return ENOSYS;  // there is nothing to choose
  if (level != RDMA_OPTION_ID) return ENOSYS;
  uint8_t byte = 0;
  int number = 0;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      if (!read_value(from, length, byte)) return EINVAL;
      id.type_of_service = byte;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (!read_value(from, length, byte) || byte > kAckTimeoutMax) return EINVAL;
      id.ack_timeout = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (!read_value(from, length, number)) return EINVAL;
      id.reuse_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (!read_value(from, length, number) || id.state != IdState::kIdle) return EINVAL;
      id.family_only = number != 0;
      return 0;
    default:
      return ENOSYS;
  }
}

}  // namespace
}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_set_option(rdma_cm_id* id, int level, int name, void* value, size_t length) {
  return returned(set_option(object(id), level, name, value, length));
}

UROCE_EXPORT int uroce_rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  // Of a vendor that is none the options mean nothing, and more than the wire has room for is refused.
  if (ece == nullptr || ece->comp_mask != 0 || ece->vendor_id == 0 || ece->vendor_id > 0xFFFFFF)
    return returned(EINVAL);
  object(id).local_ece = *ece;
  return 0;
}

UROCE_EXPORT int uroce_rdma_get_remote_ece(rdma_cm_id* face, ibv_ece* ece) {
  if (ece == nullptr || ece->comp_mask != 0) return returned(EINVAL);
  Id& id = object(face);
  const std::lock_guard guard(core().mutex);
  if (id.remote_ece.vendor_id == 0) {
    // The peer offered none.
    *ece = {};
    return 0;
  }
  *ece = id.remote_ece;
  return 0;
}

}  // extern "C"
