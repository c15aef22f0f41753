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

Status RdmaRegions::register_with(ibv_pd& domain, std::span<std::byte> memory) {
  ibv_mr* region = ibv_reg_mr(&domain, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  if (region == nullptr) {
    const int code = errno != 0 ? errno : ENOMEM;
    return Error{code, std::string("cannot register the memory of a namespace: ") + std::strerror(code)};
  }
  registered_.push_back({&domain, memory, region});
  return {};
}

template <typename Unwanted>
void RdmaRegions::deregister(Unwanted unwanted) {
  std::erase_if(registered_, [&](const Registered& one) {
    if (!unwanted(one)) return false;
    ibv_dereg_mr(one.region);
    return true;
  });
  generation_.fetch_add(1, std::memory_order_release);
}

Status RdmaRegions::add(std::span<std::byte> memory) {
  const std::lock_guard guard(mutex_);
  for (ibv_pd* domain : domains_) {
    if (const Status status = register_with(*domain, memory); !status) {
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
  for (const std::span<std::byte> memory : memories_) {
    if (const Status status = register_with(domain, memory); !status) {
      deregister([&](const Registered& one) { return one.domain == &domain; });
      return status;
    }
  }
  domains_.push_back(&domain);
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

void RdmaRegions::remove_domain(ibv_pd& domain) {
  const std::lock_guard guard(mutex_);
  std::erase(domains_, &domain);
  deregister([&](const Registered& one) { return one.domain == &domain; });
}

std::vector<RdmaRegions::Region> RdmaRegions::of(const ibv_pd& domain) const {
  const std::lock_guard guard(mutex_);
  std::vector<Region> regions;
  for (const Registered& one : registered_) {
    if (one.domain == &domain)
      regions.push_back({one.memory.data(), one.memory.data() + one.memory.size(), one.region->lkey});
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
