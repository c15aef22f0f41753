#include "nvmf_target/exports.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <tuple>
#include <utility>

#include "drivers/block_registry.h"

namespace uroce::nvmf_target {
namespace {

auto key_of(const drivers::BlockSpecification& one) {
  return std::tie(one.driver, one.path, one.size_bytes, one.block_bytes, one.memory_node, one.read_only);
}

bool same(const NamespaceConfiguration& one, const NamespaceConfiguration& other) {
  return key_of(one.device) == key_of(other.device) && one.uuid == other.uuid && one.nguid == other.nguid &&
         one.ana_group == other.ana_group;
}

bool same(const nvmf::RdmaOptions& one, const nvmf::RdmaOptions& other) {
  const auto key = [](const nvmf::RdmaOptions& of) {
    return std::tie(of.cores, of.in_capsule_bytes, of.data_bytes_max, of.io_entries_max, of.shared_receives,
                    of.shared_receive_entries, of.small_buffers, of.large_buffers, of.queues_max,
                    of.queues_per_host, of.pending_max, of.pending_per_host, of.connect_s, of.stall_s,
                    of.idle_us);
  };
  return key(one) == key(other);
}

bool same_place(const ListenConfiguration& one, const ListenConfiguration& other) {
  return one.address == other.address && one.port == other.port;
}

const NamespaceConfiguration* find(const SubsystemConfiguration* subsystem, uint32_t nsid) {
  if (subsystem == nullptr) return nullptr;
  const auto found = std::ranges::find(subsystem->namespaces, nsid, &NamespaceConfiguration::nsid);
  return found == subsystem->namespaces.end() ? nullptr : &*found;
}

const SubsystemConfiguration* find(const TargetConfiguration& in, const std::string& nqn) {
  const auto found = std::ranges::find(in.subsystems, nqn, &SubsystemConfiguration::nqn);
  return found == in.subsystems.end() ? nullptr : &*found;
}

bool listens_at(const TargetConfiguration& in, const ListenConfiguration& place) {
  return std::ranges::any_of(in.listens, [&](const auto& one) { return same_place(one, place); });
}

Error at(const std::string& where, const Error& error) { return {error.code, where + ": " + error.message}; }

}  // namespace

/// Steps back, the last one first.
struct Exports::Undo {
  std::vector<std::function<void()>> steps;
  void run() {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) (*step)();
  }
};

const SubsystemConfiguration* Exports::current(const std::string& nqn) const { return find(current_, nqn); }

Status Exports::apply(const TargetConfiguration& wanted) {
  if (const Status status = check_changeable(wanted); !status) return status;
  auto devices = open_devices(wanted);
  if (!devices) return devices.error();
  Undo undo;
  Status status = add_subsystems(wanted, undo);
  if (status && !first_) status = listen(wanted, undo);
  if (!status) {
    undo.run();
    return status;
  }
  // From here on nothing fails but the first listen(): all devices are open, and all names have been checked.
  remove_old(wanted);
  status = attach(std::move(*devices), wanted);
  // A host that waits for a target to come back looks at once which namespaces there are.
  if (status && first_) status = listen(wanted, undo);
  current_ = wanted;
  first_ = false;
  return status;
}

Status Exports::check_changeable(const TargetConfiguration& wanted) const {
  if (first_) return {};
  if (!same(wanted.transport, current_.transport))
    return Error{EINVAL, "[nvmf]: what is not a list of tables cannot be changed while the target runs"};
  for (const SubsystemConfiguration& subsystem : wanted.subsystems) {
    const SubsystemConfiguration* before = current(subsystem.nqn);
    if (before == nullptr) continue;
    if (before->serial != subsystem.serial || before->model != subsystem.model ||
        before->io_queues_max != subsystem.io_queues_max)
      return Error{EINVAL,
                   subsystem.where + ": serial, model and io_queues cannot be changed while it is exported"};
  }
  return {};
}

Result<std::vector<Exports::Opened>> Exports::open_devices(const TargetConfiguration& wanted) const {
  std::vector<Opened> opened;
  for (const SubsystemConfiguration& subsystem : wanted.subsystems) {
    for (const NamespaceConfiguration& one : subsystem.namespaces) {
      const NamespaceConfiguration* before = find(current(subsystem.nqn), one.nsid);
      if (before != nullptr && same(*before, one)) continue;
      auto device = drivers::open_block_device(one.device);
      if (!device) return at(one.where, device.error());
      opened.push_back({&subsystem, &one, with_registered_memory(transport_.regions(), std::move(*device))});
    }
  }
  return opened;
}

Status Exports::add_subsystems(const TargetConfiguration& wanted, Undo& undo) {
  for (const SubsystemConfiguration& one : wanted.subsystems) {
    if (current(one.nqn) != nullptr) continue;
    const Status added = target_.add_subsystem({.nqn = one.nqn,
                                                .serial = one.serial,
                                                .model = one.model,
                                                .hosts = one.hosts,
                                                .allow_any_host = one.allow_any_host,
                                                .io_queues_max = one.io_queues_max});
    if (!added) return at(one.where, added.error());
    undo.steps.emplace_back([this, nqn = one.nqn] { static_cast<void>(target_.remove_subsystem(nqn)); });
  }
  return {};
}

Status Exports::listen(const TargetConfiguration& wanted, Undo& undo) {
  for (const ListenConfiguration& one : wanted.listens) {
    if (listens_at(current_, one)) continue;
    if (const Status status = transport_.listen(one.address, one.port); !status)
      return at(one.where, status.error());
    undo.steps.emplace_back(
        [this, one] { static_cast<void>(transport_.stop_listening(one.address, one.port)); });
  }
  return {};
}

void Exports::remove_old(const TargetConfiguration& wanted) {
  for (const ListenConfiguration& one : current_.listens) {
    if (!listens_at(wanted, one)) static_cast<void>(transport_.stop_listening(one.address, one.port));
  }
  for (const SubsystemConfiguration& before : current_.subsystems) {
    const SubsystemConfiguration* now = find(wanted, before.nqn);
    if (now == nullptr) {
      static_cast<void>(target_.remove_subsystem(before.nqn));
      continue;
    }
    for (const NamespaceConfiguration& one : before.namespaces) {
      const NamespaceConfiguration* kept = find(now, one.nsid);
      if (kept == nullptr || !same(one, *kept))
        static_cast<void>(target_.remove_namespace(before.nqn, one.nsid));
    }
  }
}

Status Exports::attach(std::vector<Opened> devices, const TargetConfiguration& wanted) {
  Status first_failure;
  const auto keep = [&](const std::string& where, const Status& status) {
    if (!status && first_failure) first_failure = at(where, status.error());
  };
  for (Opened& one : devices) {
    keep(one.configuration->where,
         target_.add_namespace(one.subsystem->nqn, {.nsid = one.configuration->nsid,
                                                    .device = std::move(one.device),
                                                    .uuid = one.configuration->uuid,
                                                    .nguid = one.configuration->nguid,
                                                    .ana_group = one.configuration->ana_group}));
  }
  for (const SubsystemConfiguration& one : wanted.subsystems) {
    const SubsystemConfiguration* before = current(one.nqn);
    if (before == nullptr || (before->hosts == one.hosts && before->allow_any_host == one.allow_any_host))
      continue;
    keep(one.where, target_.set_hosts(one.nqn, one.hosts, one.allow_any_host));
  }
  return first_failure;
}

}  // namespace uroce::nvmf_target
