#pragma once

#include <rte_lcore.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"

// DPDK's environment abstraction layer: once per process, on a thread of ours, silent unless asked.
namespace uroce::engine {

/// What EAL was started with; for `uroce info`.
struct EalState {
  bool running = false;
  bool attached = false;  // the process had started EAL before us; arguments of ours were not used
  bool hugepages = false;
};

/// Starts EAL for the ports in `devargs` if it does not run; later calls return the first result.
/// Thread-safe, slow. The calling thread keeps its affinity and its signal mask. The error is one line.
Status start_eal(const Configuration& configuration, std::span<const std::string> devargs);

[[nodiscard]] EalState eal_state();

/// False when EAL's own descriptors are no longer what they were: a daemon has closed all that it did not
/// know, and its files may have got the numbers. Ports must then neither be opened nor closed any more. True
/// as long as EAL does not run, or is not ours.
[[nodiscard]] bool eal_intact();

/// True on the thread that is inside rte_eal_init just now.
[[nodiscard]] bool eal_starting_on_this_thread();

/// The arguments that start_eal() would use, argv[0] first; for tests and `uroce info`.
std::vector<std::string> eal_arguments(const Configuration& configuration,
                                       std::span<const std::string> devargs, bool hugepages);

inline constexpr uint32_t kNoLcore = LCORE_ID_ANY;

/// Reserves an lcore id that no other thread of the process has. EAL must run. ENOSPC: all ids are taken.
Result<uint32_t> reserve_lcore();
void release_lcore(uint32_t lcore);

/// Makes the calling thread the given lcore for as long as this lives: mempool caches and per-lcore state of
/// DPDK are then those of the poller and not of the thread. Nothing happens for kNoLcore.
class ScopedLcoreId {
 public:
  explicit ScopedLcoreId(uint32_t lcore) {
    if (lcore == kNoLcore) return;
    slot_ = &RTE_PER_LCORE(_lcore_id);
    own_ = std::exchange(*slot_, lcore);
  }
  ~ScopedLcoreId() {
    if (slot_ != nullptr) *slot_ = own_;
  }
  ScopedLcoreId(const ScopedLcoreId&) = delete;
  ScopedLcoreId& operator=(const ScopedLcoreId&) = delete;

 private:
  unsigned* slot_ = nullptr;  // the thread's; asked for once, since that is a call
  unsigned own_ = 0;
};

}  // namespace uroce::engine
