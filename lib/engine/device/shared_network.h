#pragma once

#include <optional>

#include "engine/device/address_provider.h"
#include "host/shared_device.h"

namespace uroce::engine {

/// A device that several programs share: the host's service knows its addresses, neighbours and link.
class SharedNetwork final : public AddressProvider, private host::SharedDeviceListener {
 public:
  /// `shared` is the port's, and outlives the object.
  explicit SharedNetwork(host::SharedDevice& shared) : shared_(shared) {}

  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const override;
  int join(const Gid& group) override;
  void leave(const Gid& group) override { shared_.leave(group); }
  Status start(Device& device, DeviceState& state) override;
  void stop() override { shared_.stop(); }
  void ask_to_stop() override {}
  void abandon() override {}

  /// Called by the device's neighbours, in a turn.
  void ask(const Gid& address, uint16_t vlan) override;

 private:
  void resolved(const host::Neighbour& neighbour, const Gid& hop, MacAddress mac) override;
  void resolution_failed(const host::Neighbour& neighbour, int error) override;
  void forget_neighbours(std::optional<Gid> hop, std::optional<MacAddress> mac) override;
  void address_added(const host::SharedAddress& address) override;
  void address_removed(const Gid& address) override;
  void programs_changed() override;
  int fault_added(const host::SharedFault& fault) override;
  void fault_removed(uint32_t id) override;
  Result<int> capture_added(const host::SharedFault& order) override;
  void link_changed() override;

  host::SharedDevice& shared_;
  Device* device_ = nullptr;
  DeviceState* state_ = nullptr;
};

}  // namespace uroce::engine
