// Decision: what frames need is changed in turns of the poller (with_switch()), so that frames take no lock
// and nothing needs a grace period. Cost: a turn for each listen.
#include "service/served_device.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "drivers/registry.h"
#include "engine/platform/random_key.h"

namespace uroce::service {
namespace {

/// An Ethernet header with a VLAN tag.
constexpr uint32_t kLinkHeaderBytes = 18;

/// How many programs, or listeners of one, a turn looks at.
constexpr size_t kProgramsOfTurnMax = 64;

enum class Purpose : uint64_t { kSwitch = 1, kBlocks, kPorts };

Identity identity_of(const engine::Device& device) { return {device.mac(), device.gids()}; }

/// The prefix length of an address of the kernel's if `entry` is that address; -1: it is another one.
int prefix_bits(const ifaddrs& entry, const Gid& address) {
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return -1;
  const size_t skipped = address.is_ipv4() ? 12 : 0;
  const size_t bytes = address.bytes.size() - skipped;
  const size_t at = address.is_ipv4() ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  if (entry.ifa_addr->sa_family != (address.is_ipv4() ? AF_INET : AF_INET6)) return -1;
  const auto* const own = reinterpret_cast<const uint8_t*>(entry.ifa_addr) + at;
  const auto* const mask = reinterpret_cast<const uint8_t*>(entry.ifa_netmask) + at;
  if (std::memcmp(own, address.bytes.data() + skipped, bytes) != 0) return -1;
  int bits = 0;
  for (size_t i = 0; i < bytes; ++i) bits += std::popcount(mask[i]);
  return bits;
}

/// Devices of one wire are opened together, and have one thread, which sleeps at one bell. `made`: null, if
/// the device was opened with another one.
std::shared_ptr<DeviceBell> bell_of_wire(const std::string& wire, std::shared_ptr<DeviceBell> made) {
  static std::map<std::string, std::weak_ptr<DeviceBell>> bells;
  if (made == nullptr) return bells[wire].lock();
  if (!wire.empty()) bells[wire] = made;
  return made;
}

}  // namespace

Result<std::unique_ptr<ServedDevice>> ServedDevice::open(Options options) {
  auto made = DeviceBell::make();
  if (!made) return made.error();
  std::shared_ptr<DeviceBell> bell;
  drivers::decorate_ports([&](std::unique_ptr<port::Port> port) {
    bell = *made;
    return with_bell(std::move(port), bell);
  });
  auto device = options.stack->open(options.index);
  drivers::decorate_ports(nullptr);
  if (!device) return device.error();
  bell = bell_of_wire(drivers::wire_of(options.stack->configuration().devices[options.index].port),
                      std::move(bell));
  if (bell == nullptr) return Error{EBUSY, (*device)->name() + ": is open already in this process"};
  const Result<HashKey> key = engine::random_key();
  if (!key) return key.error();
  if (options.numbers == nullptr)
    options.numbers =
        std::make_shared<DeviceNumbers>(derive(*key, static_cast<uint64_t>(Purpose::kBlocks)).low);
  return std::unique_ptr<ServedDevice>(
      new ServedDevice(std::move(options), std::move(*device), std::move(bell), *key));
}

ServedDevice::ServedDevice(Options options, std::shared_ptr<engine::Device> device,
                           std::shared_ptr<DeviceBell> bell, const HashKey& key)
    : options_(std::move(options)),
      device_(std::move(device)),
      bell_(std::move(bell)),
      ports_(derive(key, static_cast<uint64_t>(Purpose::kPorts)).low),
      switch_({.device = identity_of(*device_),
               .frame_bytes_max = device_->port_capabilities().frame_bytes_max,
               .key = derive(key, static_cast<uint64_t>(Purpose::kSwitch))}) {
  device_->add_listener(*this);
  device_->share(&switch_);
  refresh();
}

ServedDevice::~ServedDevice() {
  device_->share(nullptr);
  device_->remove_listener(*this);
}

void ServedDevice::raised(engine::DeviceEvent event) {
  // Relaxed: the write to the descriptor orders it.
  if (event == engine::DeviceEvent::kFatal) gone_.store(true, std::memory_order_relaxed);
  constexpr uint64_t kOne = 1;
  // EAGAIN: there are changes to be looked at already.
  if (write(options_.changes, &kOne, sizeof kOne) < 0) return;
}

void ServedDevice::with_switch(const std::function<void(ProgramSwitch&)>& function) {
  const int error = device_->manage(*this, [&](engine::Gsi&, Instant now) {
    switch_.set_time(now);
    function(switch_);
  });
  // A device that was closed makes no turn ever again.
  if (error != 0) function(switch_);
}

Result<uint16_t> ServedDevice::bind(const host::PortRequest& request, host::PortNumbers::Holder holder,
                                    const host::PortNumbers::Shares& shares) {
  return ports_.bind(request, holder, shares);
}

Status ServedDevice::listen(host::PortNumbers::Holder holder) {
  if (const Status claimed = ports_.claim(holder); !claimed) return claimed;
  const auto place = ports_.listens(holder);
  with_switch([&](ProgramSwitch& programs) { programs.listeners().set(*place, holder.owner); });
  return {};
}

void ServedDevice::release(host::PortNumbers::Holder holder) {
  const auto place = ports_.listens(holder);
  ports_.release(holder);
  if (!place) return;
  with_switch([&](ProgramSwitch& programs) { programs.listeners().erase(*place, holder.owner); });
}

void ServedDevice::add(ClientSession& program) {
  with_switch([&](ProgramSwitch& programs) { programs.add(program); });
}

void ServedDevice::remove(ClientSession& program) {
  for (bool done = false; !done;)
    with_switch([&](ProgramSwitch& programs) { done = programs.remove_some(program); });
  with_switch([&](ProgramSwitch& programs) { programs.remove(program); });
  const auto listened = ports_.release_all(program.program());
  for (std::span<const host::PortPlace> left = listened; !left.empty();) {
    const auto some = left.first(std::min(left.size(), kProgramsOfTurnMax));
    left = left.subspan(some.size());
    with_switch([&](ProgramSwitch& programs) {
      for (const host::PortPlace& place : some) programs.listeners().erase(place, program.program());
    });
  }
}

void ServedDevice::for_each(const std::function<void(ClientSession&)>& look) {
  size_t at = 0;
  for (bool more = true; more;) {
    with_switch([&](ProgramSwitch& programs) {
      const auto all = programs.programs();
      const size_t end = std::min(all.size(), at + kProgramsOfTurnMax);
      for (; at < end; ++at) look(*all[at]);
      more = at < all.size();
    });
  }
}

bool ServedDevice::owns(const Gid& address) const { return device_->gids().owns(address); }

void ServedDevice::refresh() {
  link_ = {.up = device_->link_up() && !gone(),
           .mtu = std::min(device_->link_mtu(), host::kFrameBytes - kLinkHeaderBytes)};
  addresses_ = addresses_now();
  with_switch([gids = device_->gids()](ProgramSwitch& programs) { programs.set_addresses(gids); });
}

std::vector<host::SharedAddress> ServedDevice::addresses_now() const {
  ifaddrs* interfaces = nullptr;
  if (!configuration().interface.empty() && getifaddrs(&interfaces) != 0) interfaces = nullptr;
  const auto bits_of = [&](const Gid& address) {
    const auto& configured = configuration().addresses;
    const auto at = std::ranges::find(configured, address, &engine::InterfaceAddress::address);
    if (at != configured.end()) return int{at->prefix_bits};
    for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next)
      if (const int bits = prefix_bits(*entry, address); bits >= 0) return bits;
    return address.is_ipv4() ? 32 : 128;
  };
  std::vector<host::SharedAddress> addresses;
  const net::GidTable gids = device_->gids();
  for (size_t i = 1; i < gids.size(); ++i)
    if (gids.in_use(i))
      addresses.push_back({gids.at(i), static_cast<uint8_t>(bits_of(gids.at(i))), gids.vlan_of(i)});
  if (interfaces != nullptr) freeifaddrs(interfaces);
  return addresses;
}

}  // namespace uroce::service
