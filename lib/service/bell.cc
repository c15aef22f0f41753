#include "service/bell.h"

#include <span>
#include <utility>
#include <vector>

namespace uroce::service {
namespace {

/// All that a port can say, from the inner one.
class PortWithBell final : public port::Port {
 public:
  PortWithBell(std::unique_ptr<port::Port> inner, std::shared_ptr<DeviceBell> bell)
      : bell_(std::move(bell)), inner_(std::move(inner)) {}

  [[nodiscard]] const port::Capabilities& capabilities() const override { return inner_->capabilities(); }
  port::PortQueue& queue(uint16_t index) override { return inner_->queue(index); }
  [[nodiscard]] bool link_up() const override { return inner_->link_up(); }
  [[nodiscard]] bool link_changes() const override { return inner_->link_changes(); }
  [[nodiscard]] bool gone() const override { return inner_->gone(); }
  [[nodiscard]] port::FarEnd far_end() const override { return inner_->far_end(); }
  void follow_addresses(std::span<const Gid> addresses) override { inner_->follow_addresses(addresses); }
  [[nodiscard]] std::vector<int> receive_events() const override { return inner_->receive_events(); }
  [[nodiscard]] host::SharedDevice* shared_device() override { return inner_->shared_device(); }
  [[nodiscard]] std::atomic<uint32_t>* bell() override { return &bell_->word(); }

 private:
  const std::shared_ptr<DeviceBell> bell_;
  const std::unique_ptr<port::Port> inner_;
};

}  // namespace

Result<std::shared_ptr<DeviceBell>> DeviceBell::make() {
  auto memory = host::make_sealed_memory("uroce-bell", 4096);
  if (!memory) return memory.error();
  return std::shared_ptr<DeviceBell>(new DeviceBell(std::move(*memory)));
}

std::unique_ptr<port::Port> with_bell(std::unique_ptr<port::Port> inner, std::shared_ptr<DeviceBell> bell) {
  return std::make_unique<PortWithBell>(std::move(inner), std::move(bell));
}

}  // namespace uroce::service
