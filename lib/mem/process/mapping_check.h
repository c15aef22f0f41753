#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::mem {

/// Ranges up to this size are populated by check_memory(), which is cheaper than asking for their mappings.
inline constexpr uint64_t kPopulatedBytesMax = 64u << 10;

/// Is the whole of [address, address + length) mapped, readable, and writable if `write`? Of a larger range
/// nothing is populated but the last page of each mapping of a file or of shared memory, which may lie beyond
/// the end of the file. Changes no byte, and raises no signal. length > 0; the range does not wrap. Any
/// thread, control path.
bool check_memory(const std::byte* address, uint64_t length, bool write);

/// check_memory() of a range of any size by the kernel's answer for one address after another (Linux 6.11).
/// Where there is none, and where the mappings do not allow it, probe_memory() decides.
bool check_by_queries(const std::byte* address, uint64_t length, bool write);
/// check_memory() of a range of any size by the list of all mappings, /proc/self/maps.
bool check_by_list(const std::byte* address, uint64_t length, bool write);

}  // namespace uroce::mem
