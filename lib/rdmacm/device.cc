// Decision: a process that exits disconnects the ids that it has not destroyed, as kernels do. Cost: for a
// killed process only a service sends DREQs; else its peers find out by retries.
//
// Decision: an id at a loopback address gets a device at once only if the process has one device and no frame
// leaves the host. Programs of librpma need `id->verbs`; elsewhere libfabric would announce 127.0.0.1 to
// other hosts. Cost: beside an interface librpma needs the address of that.
#include "rdmacm/device.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "base/process/per_process.h"
#include "net/link_scope.h"
#include "rdmacm/core.h"
#include "verbs/calls/device_list.h"
#include "verbs/calls/entry_points.h"
#include "verbs/calls/objects.h"

namespace uroce::rdmacm {
namespace {

using Devices = std::vector<std::unique_ptr<CmDevice>>;

Result<Devices> open_all() {
  const auto configured = verbs::configured_devices();
  if (!configured) return configured.error();
  Devices all;
  int error = ENODEV;
  for (const auto& device : **configured) {
    if (ibv_context* const context = uroce_ibv_open_device(&device->face); context != nullptr)
      all.push_back(std::make_unique<CmDevice>(*context));
    else
      error = errno;
  }
  if (all.empty()) return Error{error, "no device can be opened"};
  return all;
}

// A DREQ may be lost, and is not repeated when the process is gone. A peer answers when its program does:
// one that does not answer delays our end by all these attempts.
constexpr Duration kDrepWithin = milliseconds(50);
constexpr uint8_t kDreqRepeats = 3;

}  // namespace

CmDevice::CmDevice(ibv_context& context) : verbs_(context), device_(*verbs::object(&context).device) {
  device_.add_listener(*this);
}

ibv_pd* CmDevice::default_domain() {
  const std::lock_guard guard(defaults_);
  if (domain_ == nullptr) domain_ = uroce_ibv_alloc_pd(&verbs_);
  return domain_;
}

ibv_xrcd* CmDevice::default_xrc_domain() {
  const std::lock_guard guard(defaults_);
  ibv_xrcd_init_attr wanted{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  if (xrc_domain_ == nullptr) xrc_domain_ = verbs::open_xrcd(&verbs_, &wanted);
  return xrc_domain_;
}

int CmDevice::manage(const std::function<void(engine::Gsi&, Instant now)>& function) {
  return device_.manage(*this, [&](engine::Gsi& services, Instant now) {
    services_ = &services;
    function(services, now);
  });
}

void CmDevice::say_goodbye() {
  if (services_ == nullptr) return;  // it has never had a connection
  {
    const std::lock_guard guard(core().mutex);
    core().ids.clear();  // no id is told of anything any more
  }
  Instant until{};
  bool done = false;
  int error = manage([&](engine::Gsi& services, Instant now) {
    services.agent().end(kDrepWithin, kDreqRepeats, now);
    until = now + kDrepWithin * (kDreqRepeats + 1);
  });
  while (error == 0 && !done) {
    std::this_thread::yield();
    error = manage(
        [&](engine::Gsi& services, Instant now) { done = services.agent().has_ended() || now > until; });
  }
}

namespace {

struct Opened {
  std::mutex opening;
  Devices devices;                      // written once, by the thread that opens them
  std::atomic<bool> published = false;  // `devices` is read without the mutex from then on
};

Opened& opened() {
  static PerProcess<Opened> the;
  return the.get();
}

}  // namespace

Result<OpenDevices> devices() {
  Opened& the = opened();
  if (!the.published) {
    const std::lock_guard guard(the.opening);
    if (the.published) return OpenDevices(the.devices);
    Result<Devices> all = open_all();
    if (!all) return all.error();
    the.devices = std::move(*all);
    the.published = true;
    // Before the devices end, because they were opened before.
    static const int registered = std::atexit([] {
      for (const auto& device : opened().devices) device->say_goodbye();
    });
    (void)registered;
  }
  return OpenDevices(the.devices);
}

bool turn_for_services() {
  const Opened& the = opened();
  if (!the.published) return false;
  bool turned = false;
  for (const auto& device : the.devices) turned |= device->device().turn_for_services();
  return turned;
}

namespace {

/// The table of ports of each open device.
std::vector<Ports::Table> port_tables() {
  std::vector<Ports::Table> tables;
  const Opened& the = opened();
  if (!the.published) return tables;
  for (const auto& device : the.devices) tables.push_back(device->device().shared_device());
  return tables;
}

}  // namespace

Ports& ports() {
  struct OfDevices : Ports {
    OfDevices() : Ports(std::random_device{}(), port_tables) {}
  };
  static PerProcess<OfDevices> only;
  return only.get();
}

uint32_t CmDevice::zone() const { return device_.interface_of(device_.gids().at(0)); }

namespace {

bool is_in(uint32_t zone, const CmDevice& device) { return zone == 0 || device.zone() == zone; }

}  // namespace

CmDevice* device_of(const Gid& address, uint32_t zone) {
  const auto all = devices();
  if (!all) return nullptr;
  const auto found = std::ranges::find_if(
      *all, [&](const auto& one) { return one->device().gids().owns(address) && is_in(zone, *one); });
  return found == all->end() ? nullptr : found->get();
}

CmDevice* loopback_device() {
  const auto all = devices();
  return all && all->size() == 1 && all->front()->device().within_host() ? all->front().get() : nullptr;
}

std::optional<Source> this_host(bool ipv4) {
  const auto all = devices();
  if (!all) return std::nullopt;
  std::optional<Source> link_local;
  for (const auto& one : *all) {
    const net::GidTable gids = one->device().gids();
    for (size_t i = 0; i < gids.size(); ++i) {
      if (!gids.in_use(i) || gids.at(i).is_ipv4() != ipv4) continue;
      if (!net::is_link_local(gids.at(i))) return Source{one.get(), gids.at(i)};
      if (!link_local) link_local = {one.get(), gids.at(i)};
    }
  }
  return link_local;
}

Result<Source> source_to(const Gid& destination, uint32_t zone) {
  if (CmDevice* const owner = device_of(destination, zone); owner != nullptr)
    return Source{owner, destination};
  const auto all = devices();
  if (!all) return all.error();
  int error = zone == 0 ? ENETUNREACH : ENODEV;
  for (const auto& one : *all) {
    if (!is_in(zone, *one)) continue;
    error = ENETUNREACH;
    if (const auto source = one->device().source_to(destination)) return Source{one.get(), *source};
  }
  return Error{error, "no way leads there"};
}

}  // namespace uroce::rdmacm
