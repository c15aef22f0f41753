// Where frames of a device go: the neighbours of its paths, addresses of datagrams, and groups.
#include <algorithm>
#include <cerrno>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "net/derived_mac.h"
#include "wire/vlan.h"

namespace uroce::engine {

int DeviceState::resolve(wire::Path& path, bool& to_self) {
  path.source_mac = mac;
  // What is ours in another VLAN is as far away as a stranger.
  const uint16_t vlan = wire::vlan_of(path.vlan_tci);
  to_self = addresses.gids().owns(path.destination, vlan);
  if (to_self) {
    path.destination_mac = mac;
    return 0;
  }
  if (path.destination_mac != MacAddress{}) {
    const bool open = pollers[0]->run([&](qp::Turn& turn_of_poller) {
      const auto known = links.of(vlan).lookup(path.destination, turn_of_poller.now);
      path.destination_mac = known.value_or(path.destination_mac);
    });
    return open ? 0 : ENODEV;
  }
  // Neighbours live on poller 0 and are asked there, again and again until they have given up or found out.
  Duration pause = microseconds(20);
  for (;;) {
    int error = EINPROGRESS;
    const bool open = pollers[0]->run([&](qp::Turn& turn_of_poller) {
      // Links come, but never go.
      error = links.of(vlan).find_mac(path.destination, turn_of_poller.now, path.destination_mac);
    });
    if (!open) return ENODEV;
    if (error != EINPROGRESS) return error;
    if (inline_pollers()) turn(1, clock());
    nap(pause.ns);
    pause = std::min(pause * 2, milliseconds(1));
  }
}

std::optional<Gid> Device::source_to(const Gid& destination) const {
  std::optional<Gid> source;
  if (state_->inherited()) return source;
  if (state_->address_provider != nullptr && !net::is_multicast(destination)) {
    source = state_->address_provider->source_to(destination);
    return source && state_->addresses.gids().owns(*source) ? source : std::nullopt;
  }
  state_->pollers[0]->run([&](qp::Turn&) { source = state_->links.source_to(destination); });
  return source;
}

void Device::find_neighbours(std::span<NeighbourQuestion> questions) {
  DeviceState& state = *state_;
  for (NeighbourQuestion& question : questions) question.error = ENODEV;
  if (state_->inherited()) return;
  state.pollers[0]->run([&](qp::Turn& turn) {
    for (NeighbourQuestion& question : questions) {
      net::Neighbours* const link = state.links.find(question.vlan);
      question.error = link == nullptr
                           ? EHOSTUNREACH
                           : link->find_mac(question.destination, turn.now, question.mac, question.client);
    }
  });
}

Result<qp::DatagramAddress> Device::take_address(wire::Path path) {
  DeviceState& state = *state_;
  if (state_->inherited()) return Error{ENODEV, "the device was opened before fork()"};
  qp::DatagramAddress address;
  if (const int error = state.resolve(path, address.to_self); error != 0)
    return Error{error, "no way to the address"};
  address.to_group = net::is_multicast(path.destination);
  address.frame = wire::FrameTemplate(path);
  // Relaxed, here and where it goes down: it is nothing but a count.
  if (state.address_handles.fetch_add(1, std::memory_order_relaxed) < Limits::kAddressHandles) return address;
  state.address_handles.fetch_sub(1, std::memory_order_relaxed);
  return Error{ENOMEM, "no address handle left"};
}

void Device::give_back_address() { state_->address_handles.fetch_sub(1, std::memory_order_relaxed); }

int Device::add_address(const InterfaceAddress& address) {
  DeviceState& state = *state_;
  if (state_->inherited()) return ENODEV;
  const std::lock_guard guard(state.address_changes);
  net::GidTable gids = state.addresses.gids();
  if (gids.owns(address.address)) return EEXIST;
  if (!gids.add(address.address, address.vlan)) return ENOSPC;
  // Questions for the address are answered before it is shown to programs.
  const bool open = state.pollers[0]->run([&](qp::Turn&) {
    if (state.links.find(address.vlan) == nullptr)
      state.links.add(link_options(state.configuration, state.link_parts, address.vlan));
    state.links.add_address(address.vlan, {address.address, address.prefix_bits});
  });
  if (!open) return ENODEV;
  state.change_addresses(std::move(gids));
  return 0;
}

int Device::remove_address(const Gid& address) {
  DeviceState& state = *state_;
  if (state_->inherited()) return ENODEV;
  const std::lock_guard guard(state.address_changes);
  net::GidTable gids = state.addresses.gids();
  const auto index = gids.find(address);
  if (!index) return ENOENT;
  const uint16_t vlan = gids.vlan_of(*index);
  if (!gids.remove(address)) return ENOENT;
  const bool open = state.pollers[0]->run([&](qp::Turn&) { state.links.remove_address(vlan, address); });
  if (!open) return ENODEV;
  state.change_addresses(std::move(gids));
  return 0;
}

void DeviceState::change_addresses(net::GidTable gids) {
  const AddressTable::Retired retired = addresses.replace(std::move(gids));
  quiescence.wait();
  listeners.raise(DeviceEvent::kGidChange);
}

int DeviceState::join_network(const Gid& group) {
  if (address_provider != nullptr) return address_provider->join(group);
  return pollers[0]->run([&](qp::Turn&) { links.join(group); }) ? 0 : ENODEV;
}

void DeviceState::leave_network(const Gid& group) {
  if (address_provider != nullptr) return address_provider->leave(group);
  pollers[0]->run([&](qp::Turn&) { links.leave(group); });
}

int Device::hold_group(const Gid& group) {
  return state_->inherited() ? ENODEV : state_->joined_groups.hold(group);
}

void Device::release_group(const Gid& group) {
  if (!state_->inherited()) state_->joined_groups.release(group);
}

int Device::attach_group(QpSlot& queue_pair, const Gid& group) {
  if (state_->inherited()) return ENODEV;
  MulticastGroups::Retired retired;
  int error = 0;
  {
    const std::lock_guard guard(state_->mutex);
    error = state_->groups.attach(group, static_cast<PollerQp&>(queue_pair), retired);
  }
  if (retired != nullptr) state_->quiescence.wait();
  if (error != 0) return error;
  error = state_->joined_groups.join(group);
  if (error != 0) detach_group(queue_pair, group);
  return error;
}

int Device::detach_group(QpSlot& queue_pair, const Gid& group) {
  if (state_->inherited()) return ENODEV;
  MulticastGroups::Retired retired;
  int error = 0;
  {
    const std::lock_guard guard(state_->mutex);
    error = state_->groups.detach(group, static_cast<PollerQp&>(queue_pair), retired);
  }
  if (retired != nullptr) state_->quiescence.wait();
  if (error == 0) state_->joined_groups.leave_unused();
  return error;
}

bool Device::in_groups(const QpSlot& queue_pair) const {
  const std::lock_guard guard(state_->mutex);
  return state_->groups.memberships(static_cast<const PollerQp&>(queue_pair)) != 0;
}

}  // namespace uroce::engine
