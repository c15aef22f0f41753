#include "nvmf/rdma/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/tables/memory_calls.h"

namespace uroce::nvmf {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Empty: there is no memory.
std::span<std::byte> map(size_t bytes) {
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  if (bytes >= kHugePage) {
    std::byte* const huge = map_memory(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_HUGETLB | MAP_POPULATE);
    if (huge != nullptr) return {huge, rounded};
  }
  std::byte* const plain = map_memory(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
  if (plain == nullptr) return {};
  return {plain, bytes};
}

}  // namespace

Result<std::unique_ptr<RdmaMemory>> RdmaMemory::allocate(ibv_pd& domain, size_t bytes,
                                                         urocedv_dma_direction direction) {
  const std::span<std::byte> mapped = map(bytes);
  if (mapped.empty()) return Error{ENOMEM, "no memory for " + std::to_string(bytes) + " bytes of buffers"};
  std::unique_ptr<RdmaMemory> memory(new RdmaMemory(mapped));
  if (const Status status = memory->register_with(domain, direction); !status) return status.error();
  return memory;
}

Status RdmaMemory::register_with(ibv_pd& domain, urocedv_dma_direction direction) {
  const int access = direction == UROCEDV_DMA_TO_DEVICE ? 0 : int{IBV_ACCESS_LOCAL_WRITE};
  if (const DirectVerbs* direct = direct_verbs(*domain.context->device); direct != nullptr) {
    auto mapping = RdmaMapping::map(*direct, *domain.context, bytes_, direction);
    if (!mapping) return mapping.error();
    const urocedv_phys_buf run{mapping->address(), bytes_.size()};
    region_ = direct->register_physical(&domain, &run, 1, access, reinterpret_cast<uintptr_t>(bytes_.data()));
    mapping_.emplace(std::move(*mapping));
  } else {
    region_ = ibv_reg_mr(&domain, bytes_.data(), bytes_.size(), access);
  }
  if (region_ != nullptr) return {};
  const int code = errno != 0 ? errno : ENOMEM;
  return Error{code, std::string("cannot register buffers: ") + std::strerror(code)};
}

RdmaMemory::~RdmaMemory() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
  mapping_.reset();
  unmap_memory(bytes_.data(), bytes_.size());
}

}  // namespace uroce::nvmf
