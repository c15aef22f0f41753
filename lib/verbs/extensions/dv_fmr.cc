// FMRs and pools of them.
#include <infiniband/urocedv.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "engine/platform/fault_handler.h"
#include "mem/regions/fmr.h"
#include "mem/regions/fmr_pool.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

constexpr uint32_t kPoolMaps = 32;

struct VerbsFmr : urocedv_fmr {
  std::unique_ptr<mem::Fmr> region;
};

struct VerbsPoolFmr : urocedv_pool_fmr {
  mem::PooledFmr* region = nullptr;
};

struct VerbsFmrPool : urocedv_fmr_pool {
  std::unique_ptr<mem::FmrPool> regions;
  std::vector<VerbsPoolFmr> faces;  // by number
};

VerbsFmr& fmr_object(urocedv_fmr* fmr) { return *static_cast<VerbsFmr*>(fmr); }
VerbsFmrPool& fmr_object(urocedv_fmr_pool* pool) { return *static_cast<VerbsFmrPool*>(pool); }
VerbsPoolFmr& fmr_object(urocedv_pool_fmr* fmr) { return *static_cast<VerbsPoolFmr*>(fmr); }

/// Limits too large for their type here become such that the region refuses.
mem::Fmr::Options options_of(const VerbsPd& pd, int access, const urocedv_fmr_attr& attributes) {
  return {.domain = pd.domain,
          .access = mem::Access(static_cast<uint32_t>(access)),
          .pages_max = attributes.max_pages,
          .maps_max = attributes.max_maps,
          .page_shift = static_cast<uint8_t>(std::min(attributes.page_shift, uint32_t{UINT8_MAX}))};
}

template <typename Face>
void settle(Face& face, MemoryKey key) {
  face.lkey = face.rkey = key.value;
}

urocedv_fmr* alloc_fmr(ibv_pd* pd, int access, const urocedv_fmr_attr& attributes) {
  if (const int error = check_context(pd->context); error != 0) return fail(error);
  if (attributes.comp_mask != 0) return fail(EINVAL);
  engine::install_fault_handler();
  auto fmr = std::make_unique<VerbsFmr>();
  auto region =
      mem::Fmr::make(object(pd->context).device->regions(), options_of(object(pd), access, attributes));
  if (!region) return fail(region.error().code);
  fmr->region = std::move(*region);
  fmr->context = pd->context;
  fmr->pd = pd;
  settle(*fmr, fmr->region->key());
  object(pd).users.fetch_add(1);
  return fmr.release();
}

int unmap_fmrs(std::span<urocedv_fmr* const> fmrs) {
  std::vector<mem::Fmr*> regions;
  regions.reserve(fmrs.size());
  for (urocedv_fmr* fmr : fmrs) {
    if (const int error = fmr != nullptr ? check_context(fmr->context) : EINVAL; error != 0) return error;
    regions.push_back(fmr_object(fmr).region.get());
  }
  return errno_of(mem::Fmr::unmap(regions));
}

urocedv_fmr_pool* create_pool(ibv_pd* pd, const urocedv_fmr_pool_param& wanted) {
  if (const int error = check_context(pd->context); error != 0) return fail(error);
  if (wanted.comp_mask != 0 || wanted.fmr.comp_mask != 0) return fail(EINVAL);
  engine::install_fault_handler();
  auto pool = std::make_unique<VerbsFmrPool>();
  mem::FmrPool::Options options{.fmr = options_of(object(pd), wanted.access, wanted.fmr),
                                .size = wanted.pool_size,
                                .dirty_watermark = wanted.dirty_watermark,
                                .cache = wanted.cache != 0,
                                .mapped =
                                    [face = pool.get()](mem::PooledFmr& fmr) {
                                      face->faces[fmr.number()].region = &fmr;
                                      settle(face->faces[fmr.number()], fmr.key());
                                    },
                                .flushed = {}};
  if (wanted.fmr.max_maps == 0) options.fmr.maps_max = kPoolMaps;
  if (wanted.flush_function != nullptr) {
    options.flushed = [face = pool.get(), call = wanted.flush_function, argument = wanted.flush_arg] {
      call(face, argument);
    };
  }
  auto regions = mem::FmrPool::make(object(pd->context).device->regions(), options);
  if (!regions) return fail(regions.error().code);
  pool->regions = std::move(*regions);
  pool->context = pd->context;
  pool->pd = pd;
  pool->faces.resize(wanted.pool_size);
  for (VerbsPoolFmr& face : pool->faces) face.pool = pool.get();
  object(pd).users.fetch_add(1);
  return pool.release();
}

urocedv_pool_fmr* map_in_pool(VerbsFmrPool& pool, std::span<const uint64_t> pages, uint64_t iova) {
  const Result<mem::PooledFmr*> mapped = pool.regions->map(pages, iova);
  if (!mapped) return fail(mapped.error().code);
  return &pool.faces[(*mapped)->number()];
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT urocedv_fmr* uroce_urocedv_alloc_fmr(ibv_pd* pd, int access,
                                                  const urocedv_fmr_attr* attributes) {
  if (pd == nullptr || attributes == nullptr) return fail(EINVAL);
  return pointer_or_errno([&] { return alloc_fmr(pd, access, *attributes); });
}

UROCE_EXPORT int uroce_urocedv_map_phys_fmr(urocedv_fmr* fmr, const uint64_t* page_list, int pages,
                                            uint64_t iova) {
  if (page_list == nullptr || pages <= 0) return with_errno(EINVAL);
  return checked_errno(fmr, [&] {
    const int error = errno_of(fmr_object(fmr).region->map({page_list, static_cast<size_t>(pages)}, iova));
    if (error == 0) settle(*fmr, fmr_object(fmr).region->key());
    return error;
  });
}

UROCE_EXPORT int uroce_urocedv_unmap_fmr(urocedv_fmr* const* fmrs, int count) {
  if (count < 0 || (fmrs == nullptr && count != 0)) return with_errno(EINVAL);
  return zero_or_errno([&] { return unmap_fmrs({fmrs, static_cast<size_t>(count)}); });
}

UROCE_EXPORT int uroce_urocedv_dealloc_fmr(urocedv_fmr* fmr) {
  return checked_errno(fmr, [&] {
    if (const int error = errno_of(fmr_object(fmr).region->end()); error != 0) return error;
    object(fmr->pd).users.fetch_sub(1);
    delete &fmr_object(fmr);
    return 0;
  });
}

UROCE_EXPORT urocedv_fmr_pool* uroce_urocedv_create_fmr_pool(ibv_pd* pd,
                                                             const urocedv_fmr_pool_param* wanted) {
  if (pd == nullptr || wanted == nullptr) return fail(EINVAL);
  return pointer_or_errno([&] { return create_pool(pd, *wanted); });
}

UROCE_EXPORT int uroce_urocedv_destroy_fmr_pool(urocedv_fmr_pool* pool) {
  return checked_errno(pool, [&] {
    if (const int error = errno_of(fmr_object(pool).regions->end()); error != 0) return error;
    object(pool->pd).users.fetch_sub(1);
    delete &fmr_object(pool);
    return 0;
  });
}

UROCE_EXPORT urocedv_pool_fmr* uroce_urocedv_fmr_pool_map_phys(urocedv_fmr_pool* pool,
                                                               const uint64_t* page_list, int pages,
                                                               uint64_t iova) {
  if (pool == nullptr || page_list == nullptr || pages <= 0) return fail(EINVAL);
  if (const int error = check_context(pool->context); error != 0) return fail(error);
  return pointer_or_errno([&] {
    return map_in_pool(fmr_object(pool), {page_list, static_cast<size_t>(pages)}, iova);
  });
}

UROCE_EXPORT int uroce_urocedv_fmr_pool_unmap(urocedv_pool_fmr* fmr) {
  if (fmr == nullptr) return with_errno(EINVAL);
  return checked_errno(
      fmr->pool, [&] { return errno_of(fmr_object(fmr->pool).regions->unmap(*fmr_object(fmr).region)); });
}

UROCE_EXPORT int uroce_urocedv_fmr_pool_flush(urocedv_fmr_pool* pool) {
  return checked_errno(pool, [&] { return errno_of(fmr_object(pool).regions->flush()); });
}

UROCE_EXPORT int uroce_urocedv_fmr_pool_query(urocedv_fmr_pool* pool, urocedv_fmr_pool_stats* stats) {
  if (stats == nullptr) return with_errno(EINVAL);
  return checked_errno(pool, [&] {
    if (stats->comp_mask != 0) return EINVAL;
    const uroce::mem::FmrPool::Statistics now = fmr_object(pool).regions->statistics();
    *stats = {.comp_mask = 0,
              .hits = now.hits,
              .misses = now.misses,
              .maps = now.maps,
              .unmaps = now.unmaps,
              .flushes = now.flushes,
              .in_use = now.in_use,
              .free = now.free,
              .dirty = now.dirty,
              .reserved = 0};
    return 0;
  });
}

}  // extern "C"
