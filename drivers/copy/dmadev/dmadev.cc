#define ALLOW_EXPERIMENTAL_API  // all of rte_dmadev is, in DPDK 22.11
#include "drivers/copy/dmadev/dmadev.h"

#include <rte_dev.h>
#include <rte_dmadev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <set>
#include <string>

#include "drivers/pci/pci_device.h"
#include "drivers/process/signals_blocked.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kChannel = 0;
constexpr uint16_t kDescriptors = 256;  // more than a burst has copies

/// Devices that are open in this process, by name.
std::set<std::string>& open_devices() {
  static auto* names = new std::set<std::string>;  // never destroyed, as devices may be closed during exit
  return *names;
}

std::string reason(int code) { return rte_strerror(code < 0 ? -code : code); }

class DmadevEngine final : public copy::Engine {
 public:
  explicit DmadevEngine(std::string_view devargs)
      : devargs_(devargs), name_(devargs.substr(0, devargs.find(','))) {}
  ~DmadevEngine() override;
  DmadevEngine(const DmadevEngine&) = delete;
  DmadevEngine& operator=(const DmadevEngine&) = delete;

  Status attach();
  Status configure();

  bool submit(std::byte* to, const std::byte* from, uint32_t length) override {
    return rte_dma_copy(id_, kChannel, reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(to),
                        length, 0) >= 0;
  }
  void start() override { rte_dma_submit(id_, kChannel); }
  size_t ended(std::span<Outcome> outcomes) override;
  void stop(bool overdue) override;

 private:
  [[nodiscard]] Error error(int code, const std::string& what) const {
    return {code, devargs_ + ": " + what};
  }

  const std::string devargs_;
  const std::string name_;
  int16_t id_ = -1;
  bool claimed_ = false;
  bool made_ = false;
  bool running_ = false;
};

DmadevEngine::~DmadevEngine() {
  const SignalsBlocked held;
  DmadevEngine::stop(false);
  // One that was there before us stays, to be opened again.
  if (made_) rte_eal_hotplug_remove("vdev", name_.c_str());
  if (claimed_) open_devices().erase(name_);
}

Status DmadevEngine::attach() {
  if (rte_lcore_count() == 0) return error(ENODEV, "DPDK's EAL is not running");
  claimed_ = open_devices().insert(name_).second;
  if (!claimed_) return error(EBUSY, "is in use already in this process");
  int id = rte_dma_get_dev_id_by_name(name_.c_str());
  if (id < 0) {
    const size_t comma = std::min(devargs_.find(','), devargs_.size() - 1);
    const int failed = rte_eal_hotplug_add("vdev", name_.c_str(), devargs_.substr(comma + 1).c_str());
    if (failed != 0) return error(ENODEV, "no DPDK driver opens it");
    made_ = true;
    id = rte_dma_get_dev_id_by_name(name_.c_str());
    if (id < 0) return error(ENODEV, "is not a DMA device");
  }
  id_ = static_cast<int16_t>(id);
  return {};
}

Status DmadevEngine::configure() {
  rte_dma_info info{};
  if (const int failed = rte_dma_info_get(id_, &info); failed != 0) return error(EIO, reason(failed));
  constexpr uint64_t kNeeded = RTE_DMA_CAPA_MEM_TO_MEM | RTE_DMA_CAPA_OPS_COPY;
  if ((info.dev_capa & kNeeded) != kNeeded) return error(ENOTSUP, "does not copy from memory to memory");
  if ((info.dev_capa & RTE_DMA_CAPA_SVA) == 0)
    return error(ENOTSUP, "does not use the process's addresses (shared virtual addressing)");
  const rte_dma_conf device{.nb_vchans = 1, .enable_silent = false};
  rte_dma_vchan_conf channel{};
  channel.direction = RTE_DMA_DIR_MEM_TO_MEM;
  channel.nb_desc = std::bit_floor(std::clamp(kDescriptors, info.min_desc, info.max_desc));
  int failed = rte_dma_configure(id_, &device);
  if (failed == 0) failed = rte_dma_vchan_setup(id_, kChannel, &channel);
  if (failed == 0) failed = rte_dma_start(id_);
  if (failed != 0) return error(EIO, "DPDK cannot start it: " + reason(failed));
  running_ = true;
  return {};
}

size_t DmadevEngine::ended(std::span<Outcome> outcomes) {
  std::array<rte_dma_status_code, 32> codes;
  uint16_t last = 0;
  const auto wanted = static_cast<uint16_t>(std::min(outcomes.size(), codes.size()));
  const uint16_t count = rte_dma_completed_status(id_, kChannel, wanted, &last, codes.data());
  std::ranges::transform(codes.begin(), codes.begin() + count, outcomes.begin(),
                         [](rte_dma_status_code code) {
                           return code == RTE_DMA_STATUS_SUCCESSFUL ? Outcome::kCopied : Outcome::kFailed;
                         });
  return count;
}

void DmadevEngine::stop(bool overdue) {
  if (!running_) return;
  running_ = false;
  rte_dma_stop(id_);
  if (overdue)
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1,
            "%s does not end its copies: the CPU makes them from now on\n", devargs_.c_str());
}

}  // namespace

Result<std::unique_ptr<copy::Engine>> open_dmadev(std::string_view devargs) {
  if (Status status = may_have_pci_device(devargs); !status) return status.error();
  const SignalsBlocked held;
  auto engine = std::make_unique<DmadevEngine>(devargs);
  if (Status status = engine->attach(); !status) return status.error();
  if (Status status = engine->configure(); !status) return status.error();
  return std::unique_ptr<copy::Engine>(std::move(engine));
}

}  // namespace uroce::drivers
