#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::perf {

/// Copies `length` bytes, a multiple of 256, to a destination that begins a cache line, by streaming stores,
/// and returns their CRC-32 (zlib's): what a copy that looks at each byte only once can do. Leaves the sfence
/// to the caller.
using FusedCopy = uint32_t (*)(std::byte* to, const std::byte* from, size_t length);

struct FusedCopyRow {
  const char* name;
  FusedCopy copy;
};

/// The fused copies that this CPU can run.
std::span<const FusedCopyRow> fused_copies();

}  // namespace uroce::perf
