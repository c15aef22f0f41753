#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nvmf/rdma/transport.h"
#include "nvmf/subsystem/target.h"
#include "nvmf_target/target_configuration.h"

namespace uroce::nvmf_target {

/// What is exported, made to agree with a configuration: at the start all of it, later what has changed. One
/// thread.
class Exports {
 public:
  Exports(nvmf::Target& target, nvmf::RdmaTransport& transport) : target_(target), transport_(transport) {}

  /// Names what is wrong with file and line; then all is as it was before, except at the start, which is the
  /// program's end. Devices that are gone or changed are closed later, by Target::collect().
  Status apply(const TargetConfiguration& wanted);

 private:
  struct Undo;
  struct Opened {
    const SubsystemConfiguration* subsystem;
    const NamespaceConfiguration* configuration;
    std::unique_ptr<block::Device> device;
  };

  [[nodiscard]] Status check_changeable(const TargetConfiguration& wanted) const;
  /// Devices of namespaces that are new or changed.
  Result<std::vector<Opened>> open_devices(const TargetConfiguration& wanted) const;
  Status add_subsystems(const TargetConfiguration& wanted, Undo& undo);
  Status listen(const TargetConfiguration& wanted, Undo& undo);
  void remove_old(const TargetConfiguration& wanted);
  Status attach(std::vector<Opened> devices, const TargetConfiguration& wanted);
  [[nodiscard]] const SubsystemConfiguration* current(const std::string& nqn) const;

  nvmf::Target& target_;
  nvmf::RdmaTransport& transport_;
  TargetConfiguration current_;
  bool first_ = true;
};

}  // namespace uroce::nvmf_target
