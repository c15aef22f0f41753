#include "mem/regions/dma_region.h"

#include <cerrno>

namespace uroce::mem {

namespace {

RegionBinding of_the_bus(RegionKind kind, DomainId domain, Access access) {
  return {.kind = kind,
          .layout = Layout::kBus,
          .domain = domain,
          .access = access | kLocalRead,
          .iova = 0,
          .length = UINT64_MAX};
}

}  // namespace

Result<MemoryKey> make_dma_region(RegionTable& table, DomainId domain, Access access) {
  if (!kLocalWrite.covers(access)) return Error{EINVAL, "a DMA region gives no right but to write locally"};
  if (domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  return table.make_entry(of_the_bus(RegionKind::kDma, domain, access));
}

Status end_dma_region(RegionTable& table, MemoryKey lkey) {
  const RegionBinding gone = table.read_entry(lkey);
  if (gone.kind != RegionKind::kDma || gone.key != lkey) return Error{EINVAL, "no such region"};
  table.write_entry({.key = lkey});
  table.wait_for_grace();
  table.give_back(lkey);
  return {};
}

Result<MemoryKey> make_reserved_lkey(RegionTable& table) {
  return table.make_entry(of_the_bus(RegionKind::kReservedLKey, {}, kLocalWrite));
}

}  // namespace uroce::mem
