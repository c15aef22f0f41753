// Memory that is registered from the start.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <memory>
#include <mutex>

#include "engine/platform/fault_handler.h"
#include "mem/regions/hugepage_arena.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

static_assert(UROCEDV_ANY_NODE == mem::kAnyNode);

/// The region's end is the memory's.
int refuse_end(VerbsMr&) { return EINVAL; }

/// The region keeps domain and address whatever the application makes of the face's.
struct VerbsMemory : urocedv_memory {
  VerbsMr region;
  std::byte* address = nullptr;
};

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
  engine::install_fault_handler();
  auto memory = std::make_unique<VerbsMemory>();
  const Result<mem::HugepageArena::Block> block = arena_of(pd).allocate(request);
  if (!block) return fail(block.error().code);
  fill_region(memory->region, pd, block->keys.lkey, refuse_end);
  memory->region.addr = block->address;
  memory->region.length = request.bytes;
  memory->address = block->address;
  static_cast<urocedv_memory&>(*memory) = {.context = pd->context,
                                           .pd = pd,
                                           .addr = block->address,
                                           .length = request.bytes,
                                           .lkey = block->keys.lkey.value,
                                           .rkey = block->keys.rkey.value,
                                           .dma_address = block->bus_address,
                                           .page_size = block->page_bytes,
                                           .node = block->node,
                                           .reserved = 0,
                                           .mr = &memory->region};
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

UROCE_EXPORT int uroce_urocedv_free_memory(urocedv_memory* face) {
  return checked_errno(face, [&] {
    auto* const memory = static_cast<VerbsMemory*>(face);
    ibv_pd* const pd = memory->pd;
    if (const int error = errno_of(arena_of(pd).free(memory->address)); error != 0) return error;
    object(pd).users.fetch_sub(1);
    delete memory;
    return 0;
  });
}

}  // extern "C"
