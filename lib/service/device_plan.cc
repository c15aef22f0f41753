#include "service/device_plan.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "drivers/registry.h"
#include "wire/address_text.h"

namespace uroce::service {
namespace {

using engine::DeviceConfiguration;

std::string_view port_name(const DeviceConfiguration& device) {
  return std::string_view(device.port).substr(0, device.port.find(','));
}

bool share_a_wire(const DeviceConfiguration& one, const DeviceConfiguration& other) {
  const std::string wire = drivers::wire_of(one.port);
  return !wire.empty() && wire == drivers::wire_of(other.port);
}

/// The kernel's interface that the device goes through, or stands beside; empty: none.
std::string interface_of(const DeviceConfiguration& device) {
  return device.interface.empty() ? drivers::interface_of(device.port) : device.interface;
}

/// Whether `wanted` cannot be opened while `served` is open.
bool is_in_the_way(const DeviceConfiguration& served, const DeviceConfiguration& wanted) {
  const std::string interface = interface_of(wanted);
  return served.name == wanted.name || port_name(served) == port_name(wanted) ||
         share_a_wire(served, wanted) || (!interface.empty() && interface == interface_of(served));
}

/// For each wanted device, whether it is served already and may stay.
std::vector<bool> staying(std::span<const ServedAs> served, std::span<const DeviceConfiguration> wanted) {
  std::vector<bool> stays(wanted.size());
  std::vector<const DeviceConfiguration*> leaving;
  for (const ServedAs& one : served) {
    const auto same = std::ranges::find(wanted, one.configuration);
    if (same != wanted.end() && !one.gone)
      stays[static_cast<size_t>(same - wanted.begin())] = true;
    else
      leaving.push_back(&one.configuration);
  }
  const std::vector<bool> alone = stays;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto breaks_wire = [&](const DeviceConfiguration& other) { return share_a_wire(wanted[i], other); };
    for (size_t j = 0; j < wanted.size(); ++j)
      if (!alone[j] && breaks_wire(wanted[j])) stays[i] = false;
    for (const DeviceConfiguration* other : leaving)
      if (breaks_wire(*other)) stays[i] = false;
  }
  return stays;
}

}  // namespace

DevicePlan plan_devices(std::span<const ServedAs> served, std::span<const DeviceConfiguration> wanted) {
  const std::vector<bool> stays = staying(served, wanted);
  std::vector<const DeviceConfiguration*> leaving;
  for (const ServedAs& one : served) {
    const auto same = std::ranges::find(wanted, one.configuration);
    if (same == wanted.end() || !stays[static_cast<size_t>(same - wanted.begin())])
      leaving.push_back(&one.configuration);
  }
  DevicePlan plan;
  std::vector<bool> in_the_way(leaving.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (stays[i]) continue;
    bool replaces = false;
    for (size_t j = 0; j < leaving.size(); ++j) {
      if (!is_in_the_way(*leaving[j], wanted[i])) continue;
      replaces = in_the_way[j] = true;
    }
    (replaces ? plan.replacing : plan.added).push_back(i);
  }
  for (size_t j = 0; j < leaving.size(); ++j)
    (in_the_way[j] ? plan.in_the_way : plan.removed).push_back(leaving[j]->name);
  return plan;
}

Status check_addresses(std::span<const DeviceConfiguration> devices) {
  for (size_t i = 0; i < devices.size(); ++i)
    for (const engine::InterfaceAddress& ours : devices[i].addresses)
      for (const DeviceConfiguration& other : devices.first(i))
        if (std::ranges::find(other.addresses, ours.address, &engine::InterfaceAddress::address) !=
            other.addresses.end())
          return Error{EEXIST, fmt::format("{}: address {} is {}'s already", devices[i].name,
                                           wire::to_text(ours.address), other.name)};
  return {};
}

Status check_interface(const DeviceConfiguration& device) {
  const std::string interface = interface_of(device);
  if (interface.empty() || if_nametoindex(interface.c_str()) != 0) return {};
  return Error{ENODEV, fmt::format("{}: there is no interface {}", device.name, interface)};
}

}  // namespace uroce::service
