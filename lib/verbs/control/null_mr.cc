// ibv_alloc_null_mr(3).
#include <cstdint>

#include "engine/platform/fault_handler.h"
#include "mem/regions/null_region.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {
namespace {

int end_null_region(VerbsMr& mr) {
  return errno_of(mem::end_null_region(object(mr.context).device->regions(), mr.key));
}

}  // namespace

ibv_mr* alloc_null_mr(ibv_pd* face) {
  if (!all_given(face)) return fail(EINVAL);
  return pointer_or_errno([&]() -> ibv_mr* {
    VerbsPd& pd = object(face);
    VerbsContext& context = object(pd.context);
    if (!context.alive()) return fail(EIO);
    engine::install_fault_handler();
    auto mr = std::make_unique<VerbsMr>();
    const Result<MemoryKey> key = mem::make_null_region(context.device->regions(), pd.domain);
    if (!key) return fail(key.error().code);
    fill_region(*mr, face, *key, end_null_region);
    mr->length = SIZE_MAX;
    mr->rkey = 0;  // as with mlx5: it is for no peer
    return mr.release();
  });
}

}  // namespace uroce::verbs
