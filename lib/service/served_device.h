#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/stack.h"
#include "engine/poller/device_events.h"
#include "engine/poller/gsi.h"
#include "host/port_numbers.h"
#include "host/shared_device.h"
#include "service/bell.h"
#include "service/device_numbers.h"
#include "service/program_switch.h"

namespace uroce::service {

/// A device that programs share. Belongs to the control thread; what the device's poller does meanwhile
/// happens in the switch.
class ServedDevice final : private engine::DeviceListener, private engine::ServicesUser {
 public:
  struct Options {
    std::shared_ptr<engine::Stack> stack;
    size_t index = 0;                                  // of its configuration's devices
    int changes = -1;                                  // an eventfd that is written when refresh() is due
    std::shared_ptr<DeviceNumbers> numbers = nullptr;  // of the device that this one replaces; null: new ones
  };
  /// Errors name the device.
  static Result<std::unique_ptr<ServedDevice>> open(Options options);
  ~ServedDevice();
  ServedDevice(const ServedDevice&) = delete;
  ServedDevice& operator=(const ServedDevice&) = delete;

  /// With these it can be opened again when it was closed.
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const engine::DeviceConfiguration& configuration() const {
    return options_.stack->configuration().devices[options_.index];
  }
  /// What was behind its port was taken away, or nothing moves any more. Any thread.
  [[nodiscard]] bool gone() const {
    return gone_.load(std::memory_order_relaxed) || device_->gone();  // see raised()
  }
  [[nodiscard]] const std::string& name() const { return device_->name(); }
  [[nodiscard]] std::string port() const { return device_->port_capabilities().description; }
  [[nodiscard]] MacAddress mac() const { return device_->mac(); }
  [[nodiscard]] std::span<const uint16_t> partition_keys() const { return device_->partition_keys(); }
  /// The descriptor of the memory with the bell.
  [[nodiscard]] std::shared_ptr<const Descriptor> bell() const { return {bell_, &bell_->descriptor()}; }
  [[nodiscard]] DeviceNumbers& numbers() { return *options_.numbers; }

  // As of the last refresh().
  struct Link {
    bool up = false;
    uint32_t mtu = 0;
    [[nodiscard]] bool operator==(const Link&) const = default;
  };
  [[nodiscard]] Link link() const { return link_; }
  /// Without the link-local one of the MAC, which each program makes itself.
  [[nodiscard]] const std::vector<host::SharedAddress>& addresses() const { return addresses_; }
  /// Whether it is one of these, or the link-local one.
  [[nodiscard]] bool owns(const Gid& address) const;
  /// The device that the service itself has opened, for what it tells of itself.
  [[nodiscard]] const engine::Device& device() const { return *device_; }
  /// Looks at what may have changed.
  void refresh();

  /// rdma_cm's ports: PortNumbers for the programs of all users. Only what listens is the switch's, so a bind
  /// takes no turn.
  Result<uint16_t> bind(const host::PortRequest& request, host::PortNumbers::Holder holder,
                        const host::PortNumbers::Shares& shares);
  Status listen(host::PortNumbers::Holder holder);
  void release(host::PortNumbers::Holder holder);

  /// Takes a program in, and out with all that it has bound and joined, in several turns.
  void add(ClientSession& program);
  void remove(ClientSession& program);
  /// Looks at each program, so many in a turn.
  void for_each(const std::function<void(ClientSession&)>& look);

  /// Runs `function` while no other thread is at the switch: in a turn of the device's poller. It must not
  /// block, and what it costs must not grow with what a user or a program may have.
  void with_switch(const std::function<void(ProgramSwitch&)>& function);

  /// Frames to the multicast group come to the device for one program more: engine's Device::hold_group().
  [[nodiscard]] int hold_group(const Gid& group) { return device_->hold_group(group); }
  void release_group(const Gid& group) { device_->release_group(group); }

  /// Null: no way leads there.
  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const {
    return device_->source_to(destination);
  }
  /// Engine's Device::find_neighbours().
  void find_neighbours(std::span<engine::Device::NeighbourQuestion> questions) {
    device_->find_neighbours(questions);
  }

 private:
  ServedDevice(Options options, std::shared_ptr<engine::Device> device, std::shared_ptr<DeviceBell> bell,
               const HashKey& key);
  void raised(engine::DeviceEvent event) override;
  void on_event(const cm::Event&) override {}
  void on_resolved(uint64_t, int) override {}
  [[nodiscard]] std::vector<host::SharedAddress> addresses_now() const;

  const Options options_;
  const std::shared_ptr<engine::Device> device_;
  const std::shared_ptr<DeviceBell> bell_;
  std::atomic<bool> gone_{false};
  Link link_;
  std::vector<host::SharedAddress> addresses_;
  host::PortNumbers ports_;
  ProgramSwitch switch_;
};

}  // namespace uroce::service
