#include "nvmf/subsystem/target.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "nvmf/format/fabrics.h"
#include "nvmf/format/names.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

Status printable(std::string_view what, std::string_view text, size_t bytes_max) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (plain && text.size() <= bytes_max) return {};
  return Error{EINVAL, std::string(what) + " \"" + std::string(text) + "\": at most " +
                           std::to_string(bytes_max) + " printable characters"};
}

Status valid(const SubsystemOptions& options) {
  constexpr size_t kSerialBytes = 20, kModelBytes = 40;
  constexpr uint16_t kControllersMax = 0xFFEF;
  if (!is_nqn(options.nqn) || options.nqn == kDiscoveryNqn)
    return Error{EINVAL, "\"" + options.nqn + "\" is not the NQN of a subsystem"};
  if (Status status = printable("serial", options.serial, kSerialBytes); !status) return status;
  if (Status status = printable("model", options.model, kModelBytes); !status) return status;
  for (const std::string& host : options.hosts)
    if (!is_nqn(host)) return Error{EINVAL, "\"" + host + "\" is not the NQN of a host"};
  if (options.io_queues_max == 0 || options.io_queues_max == UINT16_MAX)
    return Error{EINVAL, options.nqn + ": 1 to 65534 I/O queues"};
  if (options.controllers_max == 0 || options.controllers_max > kControllersMax)
    return Error{EINVAL, options.nqn + ": 1 to 65519 controllers"};
  return {};
}

Status valid(const NamespaceOptions& options) {
  const std::string name = "namespace " + std::to_string(options.nsid);
  if (options.nsid == 0 || options.nsid > kNsidMax) return Error{EINVAL, name + ": 1 to 1024"};
  if (options.device == nullptr) return Error{EINVAL, name + ": no device"};
  const block::Properties& properties = options.device->properties();
  if (properties.block_bytes != 512 && properties.block_bytes != 4096)
    return Error{EINVAL, name + ": blocks of " + std::to_string(properties.block_bytes) + " bytes"};
  if (properties.blocks == 0) return Error{EINVAL, name + ": the device is empty"};
  if (options.ana_group == 0 || options.ana_group > kAnaGroupMax)
    return Error{EINVAL, name + ": ANA groups are 1 to 32"};
  return {};
}

SubsystemOptions discovery_options() {
  return {
      .nqn = std::string(kDiscoveryNqn), .serial = "uroce", .allow_any_host = true, .controllers_max = 1024};
}

}  // namespace

Target::Target(TargetOptions options)
    : options_(std::move(options)),
      discovery_(
          std::make_shared<Subsystem>(discovery_options(), Subsystem::Kind::kDiscovery, options_.firmware)) {}

Target::~Target() = default;

Result<std::shared_ptr<Subsystem>> Target::known(std::string_view nqn) {
  const std::lock_guard guard(mutex_);
  const auto found = subsystems_.find(nqn);
  if (found == subsystems_.end()) return Error{ENOENT, "no subsystem " + std::string(nqn)};
  return found->second;
}

std::shared_ptr<Subsystem> Target::find(std::string_view nqn) {
  if (nqn == kDiscoveryNqn) return discovery_;
  auto subsystem = known(nqn);
  return subsystem ? *subsystem : nullptr;
}

void Target::changed() {
  {
    const std::lock_guard guard(mutex_);
    ++generation_;
  }
  discovery_->notify(Notice::kDiscoveryChange);
}

Status Target::add_subsystem(SubsystemOptions options) {
  if (Status status = valid(options); !status) return status;
  const std::string nqn = options.nqn;
  auto added = std::make_shared<Subsystem>(std::move(options), Subsystem::Kind::kNvm, options_.firmware);
  {
    const std::lock_guard guard(mutex_);
    if (!subsystems_.emplace(nqn, std::move(added)).second)
      return Error{EEXIST, "there is a subsystem " + nqn};
  }
  changed();
  return {};
}

Status Target::remove_subsystem(std::string_view nqn) {
  std::shared_ptr<Subsystem> removed;
  {
    const std::lock_guard guard(mutex_);
    const auto found = subsystems_.find(nqn);
    if (found == subsystems_.end()) return Error{ENOENT, "no subsystem " + std::string(nqn)};
    removed = std::move(found->second);
    subsystems_.erase(found);
    leaving_.push_back(removed);
  }
  removed->close();
  changed();
  return {};
}

Status Target::add_namespace(std::string_view nqn, NamespaceOptions options) {
  auto subsystem = known(nqn);
  if (!subsystem) return subsystem.error();
  if (Status status = valid(options); !status) return status;
  const auto unnamed = [](const auto& name) {
    return std::ranges::all_of(name, [](uint8_t b) { return b == 0; });
  };
  if (unnamed(options.uuid) && unnamed(options.nguid) && unnamed(options.eui64))
    options.uuid = derived_uuid(nqn, options.nsid);
  return (*subsystem)->attach(std::move(options));
}

Status Target::remove_namespace(std::string_view nqn, uint32_t nsid) {
  auto subsystem = known(nqn);
  if (!subsystem) return subsystem.error();
  return (*subsystem)->detach(nsid);
}

Status Target::set_hosts(std::string_view nqn, std::vector<std::string> hosts, bool allow_any_host) {
  for (const std::string& host : hosts)
    if (!is_nqn(host)) return Error{EINVAL, "\"" + host + "\" is not the NQN of a host"};
  auto subsystem = known(nqn);
  if (!subsystem) return subsystem.error();
  (*subsystem)->set_hosts(std::move(hosts), allow_any_host);
  changed();
  return {};
}

Status Target::set_ana_state(std::string_view nqn, uint32_t group, AnaState state) {
  auto subsystem = known(nqn);
  if (!subsystem) return subsystem.error();
  if (group == 0 || group > kAnaGroupMax) return Error{EINVAL, "ANA groups are 1 to 32"};
  (*subsystem)->set_ana_state(group, state);
  return {};
}

Status Target::add_listener(Listener listener) {
  if (Status status = printable("address", listener.address, sizeof(DiscoveryLogEntry::address) - 1); !status)
    return status;
  if (Status status = printable("service", listener.service, sizeof(DiscoveryLogEntry::service) - 1); !status)
    return status;
  {
    const std::lock_guard guard(mutex_);
    for (const Listener& other : listeners_)
      if (other.address == listener.address && other.service == listener.service)
        return Error{EEXIST, "there is a listener " + listener.address + " " + listener.service};
    listeners_.push_back(std::move(listener));
  }
  changed();
  return {};
}

Status Target::remove_listener(std::string_view address, std::string_view service) {
  {
    const std::lock_guard guard(mutex_);
    const auto same = [&](const Listener& l) { return l.address == address && l.service == service; };
    if (std::erase_if(listeners_, same) == 0)
      return Error{ENOENT, "no listener " + std::string(address) + " " + std::string(service)};
  }
  changed();
  return {};
}

Target::Discovery Target::discovery(std::string_view host_nqn) {
  const std::lock_guard guard(mutex_);
  Discovery found{.generation = generation_, .entries = {}};
  for (const auto& [nqn, subsystem] : subsystems_) {
    if (!subsystem->allows(host_nqn)) continue;
    for (const Listener& listener : listeners_) found.entries.push_back({nqn, listener});
  }
  return found;
}

std::vector<Target::NamespaceReport> Target::report() {
  std::vector<std::shared_ptr<Subsystem>> subsystems;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [nqn, subsystem] : subsystems_) subsystems.push_back(subsystem);
  }
  std::vector<NamespaceReport> reports;
  for (const auto& subsystem : subsystems)
    for (const auto& one : subsystem->namespaces())
      reports.push_back({subsystem->nqn(), one->nsid(), one->statistics().totals()});
  return reports;
}

size_t Target::collect() {
  std::vector<std::shared_ptr<Subsystem>> unused;  // closes devices, without the lock
  const std::lock_guard guard(mutex_);
  size_t left = 0;
  for (const auto& [nqn, subsystem] : subsystems_) left += subsystem->collect();
  // They cannot be found any more, so that a count of one is the last.
  const auto used = [](const auto& one) { return one.use_count() > 1; };
  const auto first_unused = std::ranges::partition(leaving_, used).begin();
  unused.assign(std::make_move_iterator(first_unused), std::make_move_iterator(leaving_.end()));
  leaving_.erase(first_unused, leaving_.end());
  return left + leaving_.size();
}

}  // namespace uroce::nvmf
