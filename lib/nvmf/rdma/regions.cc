// Decision: memory of namespaces is under one DMA region's key where the device has bus addresses. A
// namespace that comes costs a mapping and no key. What the target allocates is a physical region over its
// mapping.
#include "nvmf/rdma/regions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace uroce::nvmf {
namespace {

class RegisteredDevice : public block::Device {
 public:
  RegisteredDevice(std::shared_ptr<RdmaRegions> regions, std::unique_ptr<block::Device> device)
      : regions_(std::move(regions)), device_(std::move(device)) {
    if (!device_->memory().empty() && regions_->add(device_->memory())) memory_ = device_->memory();
  }
  ~RegisteredDevice() override {
    if (!memory_.empty()) regions_->remove(memory_);
  }

  [[nodiscard]] const block::Properties& properties() const override { return device_->properties(); }
  [[nodiscard]] std::span<std::byte> memory() override { return memory_; }
  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>> buffers) override {
    return device_->open_queue(depth, buffers);
  }

 private:
  const std::shared_ptr<RdmaRegions> regions_;
  const std::unique_ptr<block::Device> device_;
  std::span<std::byte> memory_;
};

}  // namespace

RdmaRegions::~RdmaRegions() {
  deregister([](const Registered&) { return true; });
}

Status RdmaRegions::register_with(const Domain& domain, std::span<std::byte> memory) {
  if (domain.dma != nullptr) {
    auto mapping = RdmaMapping::map(*domain.direct, *domain.domain->context, memory, UROCEDV_DMA_TO_DEVICE);
    if (!mapping) return mapping.error();
    registered_.push_back({.domain = domain.domain,
                           .memory = memory,
                           .mapping = std::move(*mapping),
                           .local_key = domain.dma->lkey});
    return {};
  }
  ibv_mr* region = ibv_reg_mr(domain.domain, memory.data(), memory.size(), 0);
  if (region == nullptr) {
    const int code = errno != 0 ? errno : ENOMEM;
    return Error{code, std::string("cannot register the memory of a namespace: ") + std::strerror(code)};
  }
  registered_.push_back({.domain = domain.domain,
                         .memory = memory,
                         .mapping = std::nullopt,
                         .region = region,
                         .local_key = region->lkey});
  return {};
}

template <typename Unwanted>
void RdmaRegions::deregister(Unwanted unwanted) {
  std::erase_if(registered_, [&](const Registered& one) {
    if (!unwanted(one)) return false;
    if (one.region != nullptr) ibv_dereg_mr(one.region);
    return true;
  });
  generation_.fetch_add(1, std::memory_order_release);
}

Status RdmaRegions::add(std::span<std::byte> memory) {
  const std::lock_guard guard(mutex_);
  for (const Domain& domain : domains_) {
    if (const Status status = register_with(domain, memory); !status) {
      deregister([&](const Registered& one) { return one.memory.data() == memory.data(); });
      return status;
    }
  }
  memories_.push_back(memory);
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

void RdmaRegions::remove(std::span<std::byte> memory) {
  const std::lock_guard guard(mutex_);
  std::erase_if(memories_, [&](const auto& one) { return one.data() == memory.data(); });
  deregister([&](const Registered& one) { return one.memory.data() == memory.data(); });
}

Status RdmaRegions::add_domain(ibv_pd& domain) {
  const std::lock_guard guard(mutex_);
  Domain added{&domain, direct_verbs(*domain.context->device), nullptr};
  if (added.direct != nullptr) {
    added.dma = added.direct->get_dma_region(&domain, 0);
    if (added.dma == nullptr) return Error{errno, std::string("no DMA region: ") + std::strerror(errno)};
  }
  for (const std::span<std::byte> memory : memories_) {
    if (const Status status = register_with(added, memory); !status) {
      deregister([&](const Registered& one) { return one.domain == &domain; });
      if (added.dma != nullptr) ibv_dereg_mr(added.dma);
      return status;
    }
  }
  domains_.push_back(added);
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

void RdmaRegions::remove_domain(ibv_pd& domain) {
  const std::lock_guard guard(mutex_);
  deregister([&](const Registered& one) { return one.domain == &domain; });
  std::erase_if(domains_, [&](const Domain& one) {
    if (one.domain != &domain) return false;
    if (one.dma != nullptr) ibv_dereg_mr(one.dma);
    return true;
  });
}

std::vector<RdmaRegions::Region> RdmaRegions::of(const ibv_pd& domain) const {
  const std::lock_guard guard(mutex_);
  std::vector<Region> regions;
  for (const Registered& one : registered_) {
    if (one.domain != &domain) continue;
    std::byte* const begin = one.memory.data();
    const uint64_t address = one.mapping ? one.mapping->address() : reinterpret_cast<uintptr_t>(begin);
    regions.push_back({begin, begin + one.memory.size(), address, one.local_key});
  }
  return regions;
}

void RdmaRegionView::refresh(uint64_t generation) {
  copy_ = regions_.of(domain_);
  seen_ = generation;
}

std::unique_ptr<block::Device> with_registered_memory(std::shared_ptr<RdmaRegions> regions,
                                                      std::unique_ptr<block::Device> device) {
  return std::make_unique<RegisteredDevice>(std::move(regions), std::move(device));
}

}  // namespace uroce::nvmf
