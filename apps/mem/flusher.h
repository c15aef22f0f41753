#pragma once

#include <cstdint>
#include <optional>

#include "apps/mem/background_thread.h"
#include "apps/mem/exports.h"

namespace uroce::memory_export {

/// A range of a file that is to be brought to the disk.
struct FlushJob {
  uint64_t number = 0;  // of what asks
  SharedRegion region;
  uint64_t offset = 0;
  uint64_t length = 0;
};
struct FlushResult {
  uint64_t number = 0;
  int error = 0;  // errno
};

/// Brings the next piece to the disk, which may take seconds. Ranges take turns by pieces: a short one does
/// not wait for a long one.
std::optional<FlushResult> flush_piece(FlushJob& range);

using Flusher = BackgroundThread<FlushJob, FlushResult>;

}  // namespace uroce::memory_export
