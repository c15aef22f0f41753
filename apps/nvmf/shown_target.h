#pragma once

#include <span>

#include "base/descriptor.h"
#include "base/result.h"
#include "host/nvmf_format.h"
#include "host/shared_memory.h"
#include "nvmf/rdma/connections.h"

namespace uroce::nvmf_target {

/// The queues of this target as `uroce stat` finds them.
class ShownQueues {
 public:
  /// EMFILE, ENOMEM, ENOSYS.
  static Result<ShownQueues> make();
  /// Takes the place of what was shown before; more than host::kNvmfQueuesMax are left out.
  void show(std::span<const nvmf::RdmaQueueReport> queues);

 private:
  explicit ShownQueues(host::SealedMemory memory) : memory_(std::move(memory)) {}
  host::SealedMemory memory_;
};

}  // namespace uroce::nvmf_target
