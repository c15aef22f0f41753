#pragma once

#include <cstddef>
#include <cstdint>

#include "mem/process/memory_probe.h"

namespace uroce::engine {

/// Probes large ranges with several threads when it takes long: filling pages in is mostly the kernel
/// clearing them, while those that are there are soon looked at. The helpers are threads of ours (thread.h)
/// that live for one call; they run on the CPUs of the caller's memory node, so that pages that are filled in
/// lie where the caller alone would have put them.
class ParallelProbe final : public mem::MemoryProber {
 public:
  /// Below two such parts it is not worth a thread.
  static constexpr uint64_t kPartBytes = 32ull << 20;
  static constexpr size_t kThreadsMax = 8;

  bool probe(const std::byte* address, uint64_t length, bool write) override;
};

}  // namespace uroce::engine
