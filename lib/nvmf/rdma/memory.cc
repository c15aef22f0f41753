#include "nvmf/rdma/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/memory_calls.h"

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

Result<std::unique_ptr<RdmaMemory>> RdmaMemory::allocate(ibv_pd& domain, size_t bytes) {
  const std::span<std::byte> mapped = map(bytes);
  if (mapped.empty()) return Error{ENOMEM, "no memory for " + std::to_string(bytes) + " bytes of buffers"};
  std::unique_ptr<RdmaMemory> memory(new RdmaMemory(mapped));
  memory->region_ = ibv_reg_mr(&domain, mapped.data(), mapped.size(), int{IBV_ACCESS_LOCAL_WRITE});
  if (memory->region_ == nullptr) {
    const int code = errno != 0 ? errno : ENOMEM;
    return Error{code, std::string("cannot register buffers: ") + std::strerror(code)};
  }
  return memory;
}

RdmaMemory::~RdmaMemory() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
  unmap_memory(bytes_.data(), bytes_.size());
}

}  // namespace uroce::nvmf
