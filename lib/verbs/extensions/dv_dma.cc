// Bus addresses, and the regions that are used by them.
//
// urocedv_query_dma tells for mappings of a length how their bus addresses are aligned, and how many there
// are and can be. Both follow from the size class, which one device attribute for all could not say.
#include <infiniband/urocedv.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <vector>

#include "engine/platform/fault_handler.h"
#include "mem/regions/dma_region.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

/// Any bits: as the caller gave them.
std::optional<mem::Direction> direction_of(unsigned direction) {
  switch (direction) {
    case UROCEDV_DMA_BIDIRECTIONAL:
      return mem::Direction::kBidirectional;
    case UROCEDV_DMA_TO_DEVICE:
      return mem::Direction::kToDevice;
    case UROCEDV_DMA_FROM_DEVICE:
      return mem::Direction::kFromDevice;
  }
  return std::nullopt;
}

uint64_t refuse(int error) {
  errno = error;
  return UROCEDV_DMA_ERROR;
}

uint64_t map(ibv_context* face, void* address, size_t length, unsigned direction) {
  if (const int error = check_context(face); error != 0) return refuse(error);
  const auto way = direction_of(direction);
  if (!way) return refuse(EINVAL);
  engine::install_fault_handler();
  const Result<uint64_t> mapped =
      object(face).device->bus_space().map(static_cast<std::byte*>(address), length, *way);
  return mapped ? *mapped : refuse(mapped.error().code);
}

int unmap(ibv_context* face, std::span<const mem::BusRange> mappings, unsigned direction) {
  if (const int error = check_context(face); error != 0) return with_errno(error);
  const auto way = direction_of(direction);
  if (!way) return with_errno(EINVAL);
  return with_errno(errno_of(object(face).device->bus_space().unmap(mappings, *way)));
}

int unmap(ibv_context* face, uint64_t address, size_t length, unsigned direction) {
  const mem::BusRange mapping{address, length};
  return unmap(face, {&mapping, 1}, direction);
}

int map_list(ibv_context* face, std::span<urocedv_sg> list, unsigned direction) {
  std::vector<mem::BusRange> mapped;
  mapped.reserve(list.size());
  if (unknown_bits(list)) return refuse(EINVAL), 0;
  for (urocedv_sg& entry : list) {
    const uint64_t address = map(face, entry.address, entry.length, direction);
    if (address == UROCEDV_DMA_ERROR) {
      const int error = errno;
      if (!mapped.empty()) unmap(face, mapped, direction);
      return refuse(error), 0;
    }
    mapped.push_back({address, entry.length});
  }
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].dma_address = mapped[i].address;
    list[i].dma_length = list[i].length;
  }
  return static_cast<int>(list.size());
}

int unmap_list(ibv_context* face, std::span<const urocedv_sg> list, unsigned direction) {
  if (unknown_bits(list)) return EINVAL;
  std::vector<mem::BusRange> mappings;
  mappings.reserve(list.size());
  for (const urocedv_sg& entry : list) mappings.push_back({entry.dma_address, entry.dma_length});
  return unmap(face, mappings, direction);
}

int sync(ibv_context* face, uint64_t address, size_t length, unsigned direction) {
  if (const int error = check_context(face); error != 0) return with_errno(error);
  const auto way = direction_of(direction);
  if (!way || !object(face).device->bus_space().covers(address, length, *way)) return with_errno(EINVAL);
  // What the pollers did is ordered by the completion that was polled; this orders what the caller does.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return 0;
}

int query_dma(ibv_context* face, urocedv_dma_attr& attributes) {
  if (attributes.comp_mask != 0) return EINVAL;
  const mem::BusSpace& bus = object(face).device->bus_space();
  const auto facts = bus.allocation_limits(attributes.length);
  if (!facts) return EINVAL;
  attributes.alignment = facts->alignment;
  attributes.max_mappings = facts->mappings_max;
  attributes.mappings = facts->mappings;
  attributes.max_length = mem::BusSpace::kLengthMax;
  return 0;
}

int end_dma_region(VerbsMr& mr) {
  return errno_of(mem::end_dma_region(object(mr.context).device->regions(), mr.key));
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce;
using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT uint64_t uroce_urocedv_dma_map_single(ibv_context* context, void* address, size_t length,
                                                   unsigned direction) {
  return map(context, address, length, direction);
}

UROCE_EXPORT int uroce_urocedv_dma_unmap_single(ibv_context* context, uint64_t dma_address, size_t length,
                                                unsigned direction) {
  return unmap(context, dma_address, length, direction);
}

UROCE_EXPORT uint64_t uroce_urocedv_dma_map_page(ibv_context* context, void* page, size_t offset,
                                                 size_t length, unsigned direction) {
  return map(context, static_cast<std::byte*>(page) + offset, length, direction);
}

UROCE_EXPORT int uroce_urocedv_dma_unmap_page(ibv_context* context, uint64_t dma_address, size_t length,
                                              unsigned direction) {
  return unmap(context, dma_address, length, direction);
}

UROCE_EXPORT int uroce_urocedv_dma_map_sg(ibv_context* context, urocedv_sg* list, int entries,
                                          unsigned direction) {
  if (list == nullptr || entries <= 0) return refuse(EINVAL), 0;
  try {
    return map_list(context, {list, static_cast<size_t>(entries)}, direction);
  } catch (const std::bad_alloc&) {
    return refuse(ENOMEM), 0;
  }
}

UROCE_EXPORT int uroce_urocedv_dma_unmap_sg(ibv_context* context, urocedv_sg* list, int entries,
                                            unsigned direction) {
  if (list == nullptr || entries <= 0) return with_errno(EINVAL);
  return zero_or_errno([&] { return unmap_list(context, {list, static_cast<size_t>(entries)}, direction); });
}

UROCE_EXPORT int uroce_urocedv_dma_sync_single_for_cpu(ibv_context* context, uint64_t dma_address,
                                                       size_t length, unsigned direction) {
  return sync(context, dma_address, length, direction);
}

UROCE_EXPORT int uroce_urocedv_dma_sync_single_for_device(ibv_context* context, uint64_t dma_address,
                                                          size_t length, unsigned direction) {
  return sync(context, dma_address, length, direction);
}

UROCE_EXPORT int uroce_urocedv_query_dma(ibv_context* context, urocedv_dma_attr* attributes) {
  if (attributes == nullptr) return with_errno(EINVAL);
  if (const int error = check_context(context); error != 0) return with_errno(error);
  return with_errno(query_dma(context, *attributes));
}

UROCE_EXPORT ibv_mr* uroce_urocedv_get_dma_mr(ibv_pd* face, int access) {
  return pointer_or_errno([&]() -> ibv_mr* {
    if (face == nullptr) return fail(EINVAL);
    if (const int error = check_context(face->context); error != 0) return fail(error);
    engine::install_fault_handler();
    auto mr = std::make_unique<VerbsMr>();
    const Result<MemoryKey> key =
        mem::make_dma_region(object(face->context).device->regions(), object(face).domain,
                             mem::Access(static_cast<uint32_t>(access)));
    if (!key) return fail(key.error().code);
    fill_region(*mr, face, *key, end_dma_region);
    mr->length = UINT64_MAX;
    return mr.release();
  });
}

}  // extern "C"
