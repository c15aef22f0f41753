// ibv_reg_mr of length 0 gives a region whose keys resolve for ranges of no bytes only; no page is probed or
// charged. Neither ibv_reg_mr(3) nor mlx5 excludes it, so programs need not treat an empty buffer as a
// special case. ibv_rereg_mr to length 0 stays EINVAL, as libibverbs itself refuses it.
#include <cerrno>

#include "engine/platform/fault_handler.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"

namespace uroce::verbs {

namespace {

int end_user_region(VerbsMr& mr) { return errno_of(object(mr.context).device->regions().deregister(mr.key)); }

ibv_mr* register_region(ibv_pd* face, void* address, size_t length, uint64_t iova, unsigned int access) {
  if (!all_given(face)) return fail(EINVAL);
  return pointer_or_errno([&]() -> ibv_mr* {
    VerbsPd& pd = object(face);
    VerbsContext& context = object(pd.context);
    if (!context.alive()) return fail(EIO);
    engine::install_fault_handler();
    auto mr = std::make_unique<VerbsMr>();
    const Result<mem::RegionKeys> keys = context.device->regions().register_user({
        .domain = pd.domain,
        .address = static_cast<std::byte*>(address),
        .length = length,
        .iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
        .access = mem::Access(access),
    });
    if (!keys) return fail("reg_mr", keys.error());
    fill_region(*mr, face, keys->lkey, end_user_region);
    mr->addr = address;
    mr->length = length;
    return mr.release();
  });
}

}  // namespace

void fill_region(VerbsMr& mr, ibv_pd* pd, MemoryKey key, int (*end)(VerbsMr& mr)) {
  mr.key = key;
  mr.context = pd->context;
  mr.pd = pd;
  mr.lkey = mr.rkey = key.value;
  mr.handle = key.index();
  mr.end = end;
  object(pd).users.fetch_add(1);
}

bool is_user_region(const VerbsMr& mr) { return mr.end == end_user_region; }

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_mr* uroce_ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return register_region(pd, address, length, reinterpret_cast<uintptr_t>(address),
                         static_cast<unsigned int>(access));
}

UROCE_EXPORT ibv_mr* uroce_ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                           int access) {
  return register_region(pd, address, length, iova, static_cast<unsigned int>(access));
}

UROCE_EXPORT ibv_mr* uroce_ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                            unsigned int access) {
  return register_region(pd, address, length, iova, access);
}

UROCE_EXPORT int uroce_ibv_dereg_mr(ibv_mr* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsMr& mr = object(face);
    VerbsContext& context = object(mr.context);
    if (!context.alive()) return EIO;
    if (const int error = mr.end(mr); error != 0) return error;
    object(mr.pd).users.fetch_sub(1);
    mr.free(&mr);
    return 0;
  });
}

}  // extern "C"
