#pragma once

#include <span>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "host/nvmf_format.h"
#include "host/shared_memory.h"
#include "nvmf/rdma/connections.h"
#include "nvmf/subsystem/target.h"

namespace uroce::nvmf_target {

/// The queues and namespaces of this target as `uroce stat` finds them.
class ShownTarget {
 public:
  /// EMFILE, ENOMEM, ENOSYS.
  static Result<ShownTarget> make();
  /// Takes the place of what was shown before; what is more than the format has room for is left out.
  void show(std::span<const nvmf::RdmaQueueReport> queues,
            std::span<const nvmf::Target::NamespaceReport> namespaces);

 private:
  explicit ShownTarget(host::SealedMemory memory) : memory_(std::move(memory)) {}
  host::SealedMemory memory_;
};

}  // namespace uroce::nvmf_target
