#include "engine/device/shared_network.h"

#include <cerrno>

#include "base/process/cancellation.h"
#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "engine/scheduling/oversubscription.h"
#include "faults/breakage.h"

namespace uroce::engine {

std::optional<Gid> SharedNetwork::source_to(const Gid& destination) const {
  return shared_.source_to(destination);
}

int SharedNetwork::join(const Gid& group) {
  const Status joined = shared_.join(group);
  return joined ? 0 : joined.error().code;
}

Status SharedNetwork::start(Device& device, DeviceState& state) {
  device_ = &device;
  state_ = &state;
  shared_.start(*this);
  programs_changed();
  return {};
}

void SharedNetwork::ask(const Gid& address, uint16_t vlan) {
  const CancellationDisabled held;  // within a turn
  shared_.resolve({address, vlan});
}

void SharedNetwork::resolved(const host::Neighbour& neighbour, const Gid& hop, MacAddress mac) {
  state_->pollers[0]->run([&](qp::Turn& turn) {
    net::Neighbours* const link = state_->links.find(neighbour.vlan);
    if (link != nullptr) link->resolved(neighbour.address, hop, mac, turn.now);
  });
}

void SharedNetwork::resolution_failed(const host::Neighbour& neighbour, int error) {
  const net::Resolution why = error == EHOSTUNREACH ? net::Resolution::kOffLink : net::Resolution::kNoAnswer;
  state_->pollers[0]->run([&](qp::Turn&) {
    net::Neighbours* const link = state_->links.find(neighbour.vlan);
    if (link != nullptr) link->resolution_failed(neighbour.address, why);
  });
}

void SharedNetwork::forget_neighbours(std::optional<Gid> hop, std::optional<MacAddress> mac) {
  state_->pollers[0]->run(
      [&](qp::Turn&) { hop ? state_->links.forget_hop(*hop, mac) : state_->links.forget(); });
}

/// Adds an address. One that is there already is refused, as those that the device began with, and the
/// link-local one of the MAC.
void SharedNetwork::address_added(const host::SharedAddress& address) {
  device_->add_address(
      {.address = address.address, .prefix_bits = address.prefix_bits, .vlan = address.vlan});
}

void SharedNetwork::address_removed(const Gid& address) { device_->remove_address(address); }

void SharedNetwork::programs_changed() {
  const uint32_t programs = shared_.programs();
  set_programs_beside(programs > 0 ? programs - 1 : 0);
}

int SharedNetwork::fault_added(const host::SharedFault& fault) {
  if (const auto broken = faults::parse_breakage(fault.rule)) return device_->break_at_once(*broken);
  const auto rule = faults::parse_rule(fault.rule);
  if (!rule || fault.id == 0 || fault.id >= InjectedFaults::kFirstConfigured) return EPROTO;
  const Status status = device_->add_fault({fault.id, *rule});
  return status ? 0 : status.error().code;
}

void SharedNetwork::fault_removed(uint32_t id) {
  device_->remove_fault(id);
  device_->remove_capture(id);
}

Result<int> SharedNetwork::capture_added(const host::SharedFault& order) {
  const auto parsed = capture::parse_order(order.rule);
  if (!parsed) return parsed.error();
  return device_->add_capture(order.id, *parsed);
}

void SharedNetwork::link_changed() {
  // Relaxed: it is nothing but a number. The link's state is asked of the port.
  state_->interface_mtu.store(shared_.link_mtu(), std::memory_order_relaxed);
}

}  // namespace uroce::engine
