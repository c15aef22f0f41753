#include "engine/device/device_group.h"

#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <ranges>
#include <set>

#include "base/counters/counter_texts.h"
#include "base/process/forks.h"
#include "base/process/per_process.h"
#include "base/values/contract.h"
#include "drivers/registry.h"
#include "engine/device/debug_commands.h"
#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "engine/device/host_interface.h"
#include "engine/device/shared_network.h"
#include "engine/platform/eal.h"
#include "engine/platform/eal_log.h"
#include "engine/platform/log.h"
#include "engine/platform/random_key.h"

namespace uroce::engine {

namespace {

/// The groups that are open, for the end of the process; its lock also keeps ports from being opened and
/// closed by two threads at once, which DPDK does not allow.
struct OpenGroups {
  std::mutex mutex;
  std::set<DeviceGroup*> groups;
};

OpenGroups& open_groups() {
  static PerProcess<OpenGroups> the;
  return the.get();
}

/// Runs before the destructors of libraries that the threads use. A thread that exits may hold the lock in
/// another thread; then nothing is ended.
void end_all() {
  OpenGroups& open = open_groups();
  if (!open.mutex.try_lock()) return;
  for (DeviceGroup* group : open.groups) group->end();
  open.groups.clear();
  open.mutex.unlock();
}

/// One line of the counters that are not zero.
void write_counters_of(const Device& device) {
  const Device::PortCounts port = device.port_counts();
  std::vector<LogField> fields = {{"device", device.name()}};
  const auto add = [&](std::string_view name, uint64_t value) {
    if (value != 0) fields.push_back({name, value});
  };
  add("port_dropped", port.dropped);
  add("port_transmit_calls", port.transmit_calls);
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    add(texts_of(counter).label, device.counter(counter));
  }
  std::string line = fmt::format("{}: counters", device.name());
  for (size_t i = 1; i < fields.size(); ++i)
    line += fmt::format(" {} {}", fields[i].name, std::get<uint64_t>(fields[i].value));
  write_log(LogLevel::kInfo, "uroce", line, fields);
}

/// A terminal shows why something failed; any other standard error is the program's own.
bool logs_failures(std::string_view log_level) {
  return log_level == "info" || log_level == "debug" ||
         (log_level == "warning" && isatty(STDERR_FILENO) == 1);
}

/// One line about what a device does without; for tools alone it is not refused.
void warn(const Status& status, std::string_view log_level, std::string_view consequence) {
  if (status || log_level == "none" || log_level == "error") return;
  write_log(LogLevel::kWarning, "uroce", fmt::format("{}: {}", status.error().message, consequence));
}

Result<std::vector<std::unique_ptr<copy::Engine>>> open_copy_engines(const DeviceConfiguration& device,
                                                                     size_t pollers) {
  std::vector<std::unique_ptr<copy::Engine>> engines;
  if (!device.dmadev.empty() && device.dmadev.size() != pollers) {
    return Error{EINVAL, fmt::format("device.dmadev: {} devices for {} pollers: each needs one of its own",
                                     device.dmadev.size(), pollers)};
  }
  for (const std::string& name : device.dmadev) {
    auto engine = drivers::open_copy_engine(name);
    if (!engine) return Error{engine.error().code, "device.dmadev: " + engine.error().message};
    engines.push_back(std::move(*engine));
  }
  return engines;
}

/// Devices that must not be touched any more, not even to take them apart.
void forget(auto&& devices) {
  struct Forgotten {
    std::mutex mutex;
    std::vector<std::unique_ptr<Device>> devices;
  };
  static PerProcess<Forgotten> the;
  Forgotten& forgotten = the.get();
  const std::lock_guard guard(forgotten.mutex);
  for (std::unique_ptr<Device>& device : devices) forgotten.devices.push_back(std::move(device));
}

}  // namespace

Result<std::shared_ptr<DeviceGroup>> DeviceGroup::open(const Configuration& configuration,
                                                       std::span<const size_t> members) {
  watch_forks();
  std::shared_ptr<DeviceGroup> group(new DeviceGroup);
  group->log_counters_ = configuration.log_counters;
  set_log_format(configuration.log_format);
  const std::string log_level = log_level_in_force(configuration.log_level);
  const bool failures = logs_failures(log_level);
  set_failures_logged(failures);
  const std::string notices = failures && log_level == "warning" ? "info" : log_level;
  warn(group->statistics_.make(members.size(), configuration.pollers_per_device, notices), log_level,
       "tools see no counters of this process");
  OpenGroups& open = open_groups();
  {
    const std::lock_guard guard(open.mutex);
    for (const size_t index : members) {
      Status status = group->add(configuration, index);
      if (!status) {
        const std::string& name = configuration.devices[index].name;
        return Error{status.error().code, fmt::format("{}: {}", name, status.error().message)};
      }
    }
    open.groups.insert(group.get());
  }
  std::vector<Poller*> pollers;
  for (const Member& member : group->members_) {
    for (const Member& other : group->members_) {
      if (&other != &member) member.state->partners.push_back(other.state);
    }
    for (const auto& poller : member.state->pollers) pollers.push_back(poller.get());
    group->links_.add(*member.state);
    group->statistics_.add(*member.state);
  }
  const auto events = group->frame_events(configuration);
  if (!events) return events.error();
  if (Status status = group->threads_.start(configuration, pollers, *events); !status) return status.error();
  if (Status status = group->links_.start(); !status) return status.error();
  for (const Member& member : group->members_) {
    if (member.state->address_provider == nullptr) continue;
    if (Status status = member.state->address_provider->start(*member.device, *member.state); !status)
      return status.error();
  }
  warn(group->statistics_.start(group->dpdk_), log_level, "tools see no counters of this process");
  Status orders;
  for (const Member& member : group->members_) {
    if (member.device->shared_device() != nullptr) continue;  // the service tells of orders
    orders = DebugCommands::of_process().add(*member.device, configuration.faults);
  }
  warn(orders, log_level, "this process takes no orders of tools");
  // At exit(). As late as this, so that it runs before the destructors of whatever opening has made.
  static const int registered = std::atexit(end_all);
  (void)registered;
  return group;
}

namespace {

uint32_t first_queue_pair(const HashKey& key) {
  constexpr uint32_t kMin = QueuePairTable::kFirstMin;
  constexpr uint32_t kMax = QueuePairTable::first_max(DeviceState::kNumbers);
  return static_cast<uint32_t>(kMin + keyed_hash(key, 0, 0) % (kMax - kMin + 1));
}

}  // namespace

namespace {

/// The device is what the service says it is.
std::unique_ptr<AddressProvider> share(host::SharedDevice& shared, DeviceConfiguration& device) {
  device.addresses.clear();
  for (const host::SharedAddress& ours : shared.addresses())
    device.addresses.push_back({.address = ours.address, .prefix_bits = ours.prefix_bits, .vlan = ours.vlan});
  device.partition_keys = shared.partition_keys();
  device.mac.reset();  // the port's
  return std::make_unique<SharedNetwork>(shared);
}

}  // namespace

namespace {

/// Orders the faults of the configuration.
Status add_faults(Device& device, const Configuration& configuration) {
  uint32_t id = device.shared_device() != nullptr ? InjectedFaults::kFirstConfigured : 1;
  for (const faults::Rule& rule : configuration.faults)
    if (Status status = device.add_fault({id++, rule}); !status) return status;
  return {};
}

}  // namespace

Status DeviceGroup::add(const Configuration& configuration, size_t index) {
  DeviceConfiguration device = configuration.devices[index];
  std::unique_ptr<AddressProvider> address_provider;
  if (!device.interface.empty()) {
    auto opened = HostInterface::open(device.interface);
    if (!opened) return opened.error();
    device.addresses = (*opened)->addresses();
    address_provider = std::move(*opened);
  }
  auto port = drivers::open_port(
      {.devargs = device.port,
       .queues = configuration.pollers_per_device,
       .mtu = device.mtu,
       .mac = device.mac,
       .addresses = address_provider != nullptr ? std::vector<Gid>() : gids_of(device),
       .kernels_interface = device.interface,
       .kernels_addresses = address_provider != nullptr ? gids_of(device) : std::vector<Gid>(),
       .by_rules = !device.nic.empty(),
       .kernel_path = device.kernel_path,
       .wants_events = configuration.poller_idle == PollerIdle::kInterrupt,
       .dpdk_complaint = EalLog::take_first_error});
  if (!port) return port.error();
  // So the numbers of a process begin anywhere: a peer that still knows a killed one would take the first
  // number of the next for a stale connection.
  const Result<HashKey> key = random_key();
  if (!key) return key.error();
  std::optional<NumberBlock> numbers;
  if (host::SharedDevice* const shared = (*port)->shared_device()) {
    address_provider = share(*shared, device);
    numbers = shared->numbers();
  }
  if (std::atomic<uint32_t>* const bell = (*port)->bell()) threads_.parker().sleep_at(*bell);
  const std::string interface =
      device.interface.empty() ? drivers::interface_of(device.port) : device.interface;
  // A wire in this process has no other station.
  const bool probe = address_provider == nullptr && !(*port)->capabilities().in_process;
  DeviceState::Options options{.device = device,
                               .configuration = configuration,
                               .port = std::move(*port),
                               .lcores = {},
                               .address_provider = std::move(address_provider),
                               .probe_addresses = probe,
                               .interface = if_nametoindex(interface.c_str()),
                               .numbers = numbers,
                               .first_queue_pair = numbers ? numbers->first : first_queue_pair(*key),
                               .key = *key,
                               .eal = drivers::needs_eal(device.port),
                               .parker = &threads_.parker(),
                               .counters = statistics_.counters_of(members_.size()),
                               .latencies = statistics_.latencies_of(members_.size()),
                               .notices = statistics_.notices_of(members_.size()),
                               .counters_memory = statistics_.keep()};
  for (uint16_t i = 0; i < configuration.pollers_per_device; ++i)
    options.parkers.push_back(&threads_.parker_of(configuration, i));
  dpdk_ |= options.eal || !device.dmadev.empty();
  auto engines = open_copy_engines(device, configuration.pollers_per_device);
  if (!engines) return engines.error();
  options.copy_engines = std::move(*engines);
  for (uint16_t i = 0; i < configuration.pollers_per_device; ++i) {
    if (options.eal) {
      const auto lcore = reserve_lcore();
      if (!lcore) return lcore.error();
      lcores_.push_back(*lcore);
    }
    options.lcores.push_back(options.eal ? lcores_.back() : kNoLcore);
  }
  try {
    auto state = std::make_unique<DeviceState>(std::move(options));
    DeviceState* const raw = state.get();
    members_.push_back({index, raw, std::make_unique<Device>(std::move(state))});
    return add_faults(*members_.back().device, configuration);
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory for its tables"};
  }
}

/// Devices that are opened together are the ends of one wire inside the process, which tells of nothing.
Result<FrameEvents> DeviceGroup::frame_events(const Configuration& configuration) const {
  if (configuration.poller_idle != PollerIdle::kInterrupt) return FrameEvents{};
  const Member& first = members_.front();
  port::Port& port = *first.state->port;
  FrameEvents events{.descriptors = port.receive_events(), .port = &port};
  // A program of a service is woken at its bell; a wire whose other end is not there carries nothing.
  const bool needs_none = port.shared_device() != nullptr || port.capabilities().in_process;
  if (members_.size() == 1 && (!events.descriptors.empty() || needs_none)) return events;
  return Error{
      ENOTSUP,
      fmt::format(
          "{}: poller.idle: nothing of port {} tells a sleeping thread of frames: \"interrupt\" is for "
          "af_packet, interface, the host service and NICs with receive interrupts; \"yield\" for every port",
          first.device->name(), configuration.devices[first.index].port)};
}

bool DeviceGroup::has_lost_device() const {
  return std::ranges::any_of(members_, [](const Member& member) { return member.device->lost(); });
}

DeviceGroup::~DeviceGroup() {
  if (ended_ || forks_ != fork_count()) {
    // The ports are closed, or belong to the parent; what is left is the operating system's to clean up.
    threads_.abandon();
    links_.abandon();
    statistics_.abandon();
    for (const Member& member : members_)
      if (member.state->address_provider != nullptr) member.state->address_provider->abandon();
    forget(members_ | std::views::transform(&Member::device));
  } else {
    threads_.stop();
    links_.stop();
    statistics_.stop();
    take_no_orders();
    for (const Member& member : members_)
      if (member.state->address_provider != nullptr) member.state->address_provider->stop();
    write_counters();
    OpenGroups& open = open_groups();
    const std::lock_guard guard(open.mutex);
    open.groups.erase(this);
    if ((dpdk_ && !eal_intact()) || has_lost_device())
      forget(members_ | std::views::transform(&Member::device));
    members_.clear();
    for (const uint32_t lcore : lcores_) release_lcore(lcore);
  }
  closed_->count_down();
}

Device& DeviceGroup::device(size_t index) {
  const auto it = std::ranges::find(members_, index, &Member::index);
  UROCE_ASSERT(it != members_.end());
  return *it->device;
}

void DeviceGroup::take_no_orders() const {
  for (const Member& member : members_) DebugCommands::of_process().remove(*member.device);
}

void DeviceGroup::write_counters() const {
  if (!log_counters_) return;
  for (const Member& member : members_) write_counters_of(*member.device);
}

void DeviceGroup::end() {
  // An application's thread may be inside a turn, but a turn does not last.
  constexpr Duration kPatience = milliseconds(200);
  threads_.stop();
  links_.stop();
  statistics_.stop();
  take_no_orders();
  ended_ = true;
  bool closed = true;
  for (const Member& member : members_) {
    // It may wait for a turn that never ends, since we are inside it; but not for a closed poller.
    if (member.state->address_provider != nullptr) member.state->address_provider->ask_to_stop();
    for (const auto& poller : member.state->pollers) closed &= poller->close(kPatience);
  }
  if (!closed) return;
  for (const Member& member : members_)
    if (member.state->address_provider != nullptr) member.state->address_provider->stop();
  write_counters();
  const bool intact = eal_intact();
  for (const Member& member : members_) {
    if (intact || !member.state->eal) member.state->port.reset();
  }
}

}  // namespace uroce::engine
