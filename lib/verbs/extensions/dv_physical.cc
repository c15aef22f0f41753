// Physical regions: runs of bus addresses.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "engine/platform/fault_handler.h"
#include "mem/regions/physical_region.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

struct VerbsPhysicalMr : VerbsMr {
  std::unique_ptr<mem::PhysicalRegion> region;
};

int end_physical_region(VerbsMr& mr) { return errno_of(static_cast<VerbsPhysicalMr&>(mr).region->end()); }

ibv_mr* register_runs(ibv_pd* face, std::span<const urocedv_phys_buf> bufs, uint32_t access, uint64_t iova) {
  if (const int error = check_context(face->context); error != 0) return fail(error);
  engine::install_fault_handler();
  std::vector<mem::BusRange> runs;
  runs.reserve(bufs.size());
  for (const urocedv_phys_buf& buf : bufs) runs.push_back({buf.dma_address, buf.length});
  auto mr = std::make_unique<VerbsPhysicalMr>();
  Result<std::unique_ptr<mem::PhysicalRegion>> region =
      mem::PhysicalRegion::make(object(face->context).device->regions(), runs,
                                {.domain = object(face).domain, .access = mem::Access(access), .iova = iova});
  if (!region) return fail(region.error().code);
  mr->region = std::move(*region);
  mr->free = [](VerbsMr* gone) { delete static_cast<VerbsPhysicalMr*>(gone); };
  fill_region(*mr, face, mr->region->key(), end_physical_region);
  mr->addr = reinterpret_cast<void*>(mr->region->iova());
  mr->length = mr->region->length();
  return mr.release();
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_mr* uroce_urocedv_reg_phys_mr(ibv_pd* pd, const urocedv_phys_buf* bufs, int count,
                                               int access, uint64_t iova) {
  if (pd == nullptr || bufs == nullptr || count <= 0) return fail(EINVAL);
  return pointer_or_errno([&] {
    return register_runs(pd, {bufs, static_cast<size_t>(count)}, static_cast<uint32_t>(access), iova);
  });
}

}  // extern "C"
