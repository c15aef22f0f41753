#include "nvmf/rdma_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::nvmf {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Empty: there is no memory.
std::span<std::byte> map(size_t bytes) {
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
  if (bytes >= kHugePage) {
    void* huge = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, kPrivate | MAP_HUGETLB | MAP_POPULATE, -1, 0);
    if (huge != MAP_FAILED) return {static_cast<std::byte*>(huge), rounded};
  }
  void* plain = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kPrivate, -1, 0);
  if (plain == MAP_FAILED) return {};
  return {static_cast<std::byte*>(plain), bytes};
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
  munmap(bytes_.data(), bytes_.size());
}

}  // namespace uroce::nvmf
