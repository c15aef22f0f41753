#include "apps/mem/flusher.h"

#include <algorithm>

namespace uroce::memory_export {
namespace {

constexpr uint64_t kPieceBytes = 16 << 20;

}  // namespace

std::optional<FlushResult> flush_piece(FlushJob& range) {
  const uint64_t piece = std::min(range.length, kPieceBytes);
  const int error = range.region->file->sync(range.offset, piece);
  range.offset += piece;
  range.length -= piece;
  if (error == 0 && range.length > 0) return std::nullopt;
  return FlushResult{range.number, error};
}

}  // namespace uroce::memory_export
