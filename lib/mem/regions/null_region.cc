#include "mem/regions/null_region.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/tables/memory_calls.h"

namespace uroce::mem {
namespace {

/// kNullBytes of zeros that cannot be written, and behind them as many for what is discarded; nullptr: there
/// is no memory. One for the process, which is never unmapped: what is written there is never read.
std::byte* null_memory() {
  static std::byte* const memory = [] {
    std::byte* const made = map_memory(nullptr, 2 * kNullBytes, PROT_READ | PROT_WRITE, 0);
    if (made != nullptr) ::mprotect(made, kNullBytes, PROT_READ);
    return made;
  }();
  return memory;
}

}  // namespace

Result<MemoryKey> make_null_region(RegionTable& table, DomainId domain) {
  if (domain == DomainId{}) return Error{EINVAL, "a region needs a protection domain"};
  std::byte* const memory = null_memory();
  if (memory == nullptr) return Error{ENOMEM, "no memory for null regions"};
  return table.make_entry({.kind = RegionKind::kNull,
                           .layout = Layout::kNull,
                           .domain = domain,
                           .access = kLocalWrite | kLocalRead,
                           .iova = 0,
                           .length = UINT64_MAX,
                           .memory = memory});
}

Status end_null_region(RegionTable& table, MemoryKey lkey) {
  const RegionBinding gone = table.read_entry(lkey);
  if (gone.kind != RegionKind::kNull || gone.key != lkey) return Error{EINVAL, "no such region"};
  table.write_entry({.key = lkey});
  table.wait_for_grace();
  table.give_back(lkey);
  return {};
}

}  // namespace uroce::mem
