// Memory that is registered from the start.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <memory>
#include <mutex>

#include "engine/fault_handler.h"
#include "mem/hugepage_arena.h"
#include "verbs/call_guard.h"
#include "verbs/dv.h"
#include "verbs/export.h"
#include "verbs/objects.h"

namespace uroce::verbs {

namespace {

static_assert(UROCEDV_ANY_NODE == mem::kAnyNode);

mem::HugepageArena& arena_of(ibv_pd* face) {
  VerbsPd& pd = object(face);
  const std::lock_guard lock(pd.arena_mutex);
  if (pd.arena == nullptr) {
    pd.arena = std::make_unique<mem::HugepageArena>(object(face->context).device->regions(), pd.domain);
  }
  return *pd.arena;
}

urocedv_memory* allocate(ibv_pd* pd, const mem::HugepageArena::Request& request) {
  if (const int error = check_context(pd->context); error != 0) return fail(error);
  engine::watch_faults();
  auto memory = std::make_unique<urocedv_memory>();
  const Result<mem::HugepageArena::Block> block = arena_of(pd).allocate(request);
  if (!block) return fail(block.error().code);
  *memory = {.context = pd->context,
             .pd = pd,
             .addr = block->address,
             .length = request.bytes,
             .lkey = block->keys.lkey.value,
             .rkey = block->keys.rkey.value,
             .dma_address = block->bus_address,
             .page_size = block->page_bytes,
             .node = block->node,
             .reserved = 0};
  object(pd).users.fetch_add(1);
  return memory.release();
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce;
using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT urocedv_memory* uroce_urocedv_alloc_memory(ibv_pd* pd, size_t bytes, int node, int access,
                                                        uint32_t flags) {
  constexpr uint32_t kFlags = UROCEDV_MEMORY_HUGEPAGES_ONLY | UROCEDV_MEMORY_OWN_REGION;
  if (pd == nullptr || (flags & ~kFlags) != 0) return fail(EINVAL);
  return pointer_or_errno([&] {
    return allocate(pd, {.bytes = bytes,
                         .access = mem::Access(static_cast<uint32_t>(access)),
                         .node = node,
                         .hugepages_only = (flags & UROCEDV_MEMORY_HUGEPAGES_ONLY) != 0,
                         .alone = (flags & UROCEDV_MEMORY_OWN_REGION) != 0});
  });
}

UROCE_EXPORT int uroce_urocedv_free_memory(urocedv_memory* memory) {
  return checked_errno(memory, [&] {
    const int error = errno_of(arena_of(memory->pd).free(static_cast<std::byte*>(memory->addr)));
    if (error != 0) return error;
    object(memory->pd).users.fetch_sub(1);
    delete memory;
    return 0;
  });
}

}  // extern "C"
