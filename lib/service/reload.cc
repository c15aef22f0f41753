// The configuration is read again while programs are attached. A device is known by its name: one that the
// file names as before stays, with all of its programs; others come and go.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <iterator>
#include <utility>

#include "service/service.h"

namespace uroce::service {
namespace {

constexpr const char* kRemoved = "the device was removed from the service";

}  // namespace

Status Service::reload(const ClientProcess& program) {
  if (program.peer.uid != 0 && program.peer.uid != geteuid())
    return Error{EPERM, "only the service's own user and the superuser may reload its configuration"};
  return read_configuration();
}

Status Service::read_configuration() {
  if (reload_ == nullptr) return Error{EINVAL, "the service was started without a configuration file"};
  // Whatever goes wrong is one line, and never the end of the service.
  try {
    const auto read = reload_();
    if (!read) return read.error();
    if (Status status = change_devices(read->devices); !status) return status;
    configuration_.quotas = read->service.quotas;
    configuration_.users = read->service.users;
    apply_quotas();
    if (read->taken) read->taken();
    return {};
  } catch (const std::exception& error) {
    return Error{ENOMEM, fmt::format("the configuration cannot be read again: {}", error.what())};
  }
}

/// New devices are opened first, so that nothing has changed when one of them cannot be. Only a device that
/// takes the place of another one has to wait until that is closed; if it cannot be opened then, the other
/// one is again.
Status Service::change_devices(const engine::Configuration& configuration) {
  if (Status status = check_addresses(configuration.devices); !status) return status;
  engine::Configuration devices = configuration;
  devices.faults.clear();
  auto made = engine::Stack::create(std::move(devices));
  if (!made) return made.error();
  const std::shared_ptr<engine::Stack> stack = std::move(*made);
  const std::vector<engine::DeviceConfiguration>& wanted = stack->configuration().devices;
  std::vector<ServedAs> served;
  for (const auto& device : devices_) served.push_back({device->configuration(), device->gone()});
  const DevicePlan plan = plan_devices(served, wanted);

  std::vector<ServedDevice::Options> added, replacing;
  for (const size_t index : plan.added)
    added.push_back({.stack = stack, .index = index, .changes = changes_.get()});
  for (const size_t index : plan.replacing) {
    if (Status status = check_interface(wanted[index]); !status) return status;
    const ServedDevice* const same = find_device(wanted[index].name);
    replacing.push_back({.stack = stack,
                         .index = index,
                         .changes = changes_.get(),
                         .numbers = same != nullptr ? same->options().numbers : nullptr});
  }

  auto opened = open_devices(added);
  if (!opened) return opened.error();
  const std::vector<std::string> before = names();
  const std::vector<ServedDevice::Options> closed = remove_devices(plan.in_the_way);
  auto replaced = open_devices(replacing);
  if (!replaced) {
    opened->clear();
    Error error = restore(closed, replaced.error());
    arrange(before);
    return error;
  }
  remove_devices(plan.removed);
  std::ranges::move(*opened, std::back_inserter(devices_));
  std::ranges::move(*replaced, std::back_inserter(devices_));
  std::vector<std::string> now;
  for (const engine::DeviceConfiguration& device : wanted) now.push_back(device.name);
  arrange(now);
  return {};
}

/// All of them, or none.
Result<Service::Devices> Service::open_devices(const std::vector<ServedDevice::Options>& all) const {
  Devices opened;
  for (const ServedDevice::Options& options : all) {
    auto device = ServedDevice::open(options);
    if (!device) return device.error();
    opened.push_back(std::move(*device));
  }
  return opened;
}

/// Closes them, after their programs have ended. What they are opened with again.
std::vector<ServedDevice::Options> Service::remove_devices(const std::vector<std::string>& names) {
  std::vector<ServedDevice::Options> closed;
  const auto is_meant = [&](const auto& device) {
    return std::ranges::find(names, device->name()) != names.end();
  };
  for (const auto& device : devices_) {
    if (!is_meant(device)) continue;
    closed.push_back(device->options());
    end_programs_of(*device);
    neighbours_.forget(*device);
  }
  std::erase_if(devices_, is_meant);
  return closed;
}

/// Programs of the device find it as if the service had gone: they keep their channels to each other, so none
/// of them hears that another one has ended, and they come back when the device does. The connections are
/// closed when this round ends.
void Service::end_programs_of(const ServedDevice& device) {
  const auto is_its = [&](const ClientProcess& program) {
    return program.attached() && program.device == &device;
  };
  for (auto& [id, program] : programs_)
    if (is_its(*program)) end(*program, ENODEV, kRemoved);
  for (auto& [id, program] : programs_)
    if (is_its(*program)) detach(*program, Numbers::kKept);
}

/// Opens again what was closed for devices that cannot be opened: why, and what could not be restored either.
Error Service::restore(const std::vector<ServedDevice::Options>& closed, Error why) {
  for (const ServedDevice::Options& options : closed) {
    auto device = ServedDevice::open(options);
    if (!device) {
      why.message += fmt::format("; what was there before is gone: {}", device.error().message);
    } else {
      devices_.push_back(std::move(*device));
    }
  }
  return why;
}

std::vector<std::string> Service::names() const {
  std::vector<std::string> names;
  for (const auto& device : devices_) names.push_back(device->name());
  return names;
}

/// In the order of the names: the first device is the one of programs that name none.
void Service::arrange(const std::vector<std::string>& names) {
  const auto place = [&](const auto& device) {
    return std::ranges::find(names, device->name()) - names.begin();
  };
  std::ranges::sort(devices_, std::less<>(), place);
}

}  // namespace uroce::service
