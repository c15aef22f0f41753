#include "engine/device/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <latch>
#include <mutex>
#include <optional>

#include "base/process/forks.h"
#include "base/process/per_process.h"
#include "drivers/registry.h"
#include "engine/device/device_group.h"
#include "engine/device/service_devices.h"
#include "engine/platform/clock.h"
#include "engine/platform/eal.h"
#include "engine/scheduling/oversubscription.h"
#include "net/derived_mac.h"

namespace uroce::engine {

namespace {

/// Gives a MAC to each device that has an address but whose port comes without one, so that its GUID and
/// link-local GID are known before it is opened and stay the same.
Configuration with_macs(Configuration configuration) {
  for (DeviceConfiguration& device : configuration.devices) {
    if (device.mac || device.addresses.empty() || drivers::has_mac(device.port)) continue;
    device.mac = net::derived_mac(device.addresses.front().address);
  }
  return configuration;
}

class ConfiguredStack final : public Stack {
 public:
  explicit ConfiguredStack(Configuration configuration)
      : configuration_(with_macs(std::move(configuration))), slots_(configuration_.devices.size()) {
    if (configuration_.cycle_clock) count_cycles_if_steady();
  }

  [[nodiscard]] const Configuration& configuration() const override { return configuration_; }
  [[nodiscard]] std::optional<MacAddress> known_mac(size_t index) const override;
  Result<std::shared_ptr<Device>> open(size_t index) override;

 private:
  [[nodiscard]] std::vector<size_t> opened_with(size_t index) const;
  Status start_eal_for(std::span<const size_t> members) const;

  const Configuration configuration_;
  const uint32_t forks_ = fork_count();  // when it was made
  std::mutex mutex_;
  struct Slot {
    std::weak_ptr<DeviceGroup> group;
    std::shared_ptr<std::latch> closed;  // of the group that was opened last
  };
  std::vector<Slot> slots_;  // by device
};

std::optional<MacAddress> ConfiguredStack::known_mac(size_t index) const {
  const DeviceConfiguration& device = configuration_.devices[index];
  if (device.mac) return device.mac;
  return drivers::known_mac(device.interface.empty() ? device.port : port::packet_port_on(device.interface));
}

Result<std::shared_ptr<Device>> ConfiguredStack::open(size_t index) {
  if (index >= configuration_.devices.size())
    return Error{ENODEV, fmt::format("there is no device {}", index)};
  if (forks_ != fork_count()) return Error{ENODEV, "the stack is the parent process's"};
  const std::lock_guard guard(mutex_);
  Slot& slot = slots_[index];
  std::shared_ptr<DeviceGroup> group = slot.group.lock();
  if (group == nullptr) {
    // The last reference may have gone this moment, in another thread: its ports are still to be closed.
    if (slot.closed != nullptr) slot.closed->wait();
    const std::vector<size_t> members = opened_with(index);
    if (Status status = start_eal_for(members); !status) return status.error();
    auto opened = DeviceGroup::open(configuration_, members);
    if (!opened) return opened.error();
    group = *opened;
    for (const size_t member : members) slots_[member] = {group, group->closed()};
  }
  Device* device = &group->device(index);
  return std::shared_ptr<Device>(std::move(group), device);
}

std::vector<size_t> ConfiguredStack::opened_with(size_t index) const {
  std::vector<size_t> members = {index};
  const std::string wire = drivers::wire_of(configuration_.devices[index].port);
  for (size_t i = 0; i < configuration_.devices.size() && !wire.empty(); ++i) {
    if (i != index && drivers::wire_of(configuration_.devices[i].port) == wire) members.push_back(i);
  }
  return members;
}

Status ConfiguredStack::start_eal_for(std::span<const size_t> members) const {
  const auto needs = [&](size_t i) {
    const DeviceConfiguration& device = configuration_.devices[i];
    return drivers::needs_eal(device.port) || !device.dmadev.empty();
  };
  if (std::ranges::none_of(members, needs)) return {};
  // EAL starts once and must hear of every NIC then, also of those that are opened later.
  std::vector<std::string> devargs;
  for (size_t i = 0; i < configuration_.devices.size(); ++i) {
    const DeviceConfiguration& device = configuration_.devices[i];
    if (drivers::needs_eal(device.port)) devargs.push_back(device.port);
    devargs.insert(devargs.end(), device.dmadev.begin(), device.dmadev.end());
  }
  return start_eal(configuration_, devargs);
}

}  // namespace

Result<std::unique_ptr<Stack>> Stack::create(Configuration configuration) {
  if (configuration.devices.empty()) return Error{EINVAL, "a stack needs a device"};
  return std::unique_ptr<Stack>(std::make_unique<ConfiguredStack>(std::move(configuration)));
}

Result<Stack*> Stack::instance() {
  struct Instance {
    std::mutex mutex;
    std::optional<Result<Stack*>> stack;
  };
  static PerProcess<Instance> instances;
  // As this process, or the one that it was forked from, has read it: devices that were listed keep their
  // places in a child.
  static std::atomic<const Configuration*> known{nullptr};
  Instance& instance = instances.get();
  const std::lock_guard guard(instance.mutex);
  if (instance.stack) return *instance.stack;
  // Acquire: pairs with the store below.
  if (const Configuration* const parents = known.load(std::memory_order_acquire)) {
    forget_polling_threads();
    instance.stack.emplace(new ConfiguredStack(*parents));
  } else {
    Result<Configuration> configuration = configuration_from_environment();
    if (configuration) configuration = with_faults_of_environment(std::move(*configuration));
    if (configuration) configuration = with_service_devices(std::move(*configuration));
    if (configuration) {
      auto* const stack = new ConfiguredStack(std::move(*configuration));
      instance.stack.emplace(stack);
      known.store(&stack->configuration(), std::memory_order_release);  // pairs with the load above
    } else {
      instance.stack.emplace(configuration.error());
    }
  }
  return *instance.stack;
}

bool Stack::starting_on_this_thread() { return eal_starting_on_this_thread(); }

}  // namespace uroce::engine
