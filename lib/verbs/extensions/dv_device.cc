#include <infiniband/urocedv.h>

#include <cerrno>

#include "mem/regions/fast_region.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/device_list.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT bool uroce_urocedv_is_supported(ibv_device* device) {
  return device != nullptr && ours(*device);
}

UROCE_EXPORT int uroce_urocedv_query_device(ibv_context* face, urocedv_device_attr* attributes) {
  if (!all_given(face, attributes)) return with_errno(EINVAL);
  if (const int error = check_context(face); error != 0) return with_errno(error);
  if (attributes->comp_mask != 0) return with_errno(EINVAL);
  *attributes = {.comp_mask = 0,
                 .reserved_lkey = object(face).device->reserved_lkey().value,
                 .max_fast_reg_pages = uroce::mem::FastRegion::kPagesMax};
  return 0;
}

UROCE_EXPORT ibv_qp* uroce_urocedv_create_qp(ibv_context* face, ibv_qp_init_attr_ex* wanted,
                                             urocedv_qp_init_attr* more) {
  if (!all_given(face, wanted)) return fail(EINVAL);
  if (const int error = check_context(face); error != 0) return fail(error);
  QpExtras extras;
  if (more != nullptr) {
    if (more->comp_mask != 0 || (more->create_flags & ~unsigned{UROCEDV_QP_CREATE_RESERVED_LKEY}) != 0)
      return fail(EINVAL);
    extras.reserved_lkey = (more->create_flags & UROCEDV_QP_CREATE_RESERVED_LKEY) != 0;
  }
  return create_qp_ex(face, wanted, extras);
}

}  // extern "C"
