#pragma once

#include <cstddef>

// The kernel's memory calls themselves. Programs put hooks in front of libc's mmap, munmap, mremap and
// madvise (registration caches of communication libraries do), and a hook may lose an argument or take a lock
// that the caller holds. Memory that is ours alone is nothing that such a hook has to hear of, so it is not
// asked.

namespace uroce {

/// The smallest that the kernel maps.
inline constexpr size_t kPageBytes = 4096;

/// mmap(2) of anonymous private memory with further `flags`. nullptr: it failed (errno), or the memory is
/// not at `place` although one was named; nothing is mapped then. With MAP_FIXED_NOREPLACE nothing is ever
/// replaced.
std::byte* map_memory(std::byte* place, size_t bytes, int protection, int flags);

/// munmap(2) of whole pages.
void unmap_memory(void* first, size_t bytes);

/// Moves whole pages to `place`, whatever was mapped there. False: they are not there, and where they were is
/// theirs still; the kernel may have unmapped `place`.
bool move_memory(void* from, size_t bytes, std::byte* place);

/// madvise(2): true for success; errno says why not.
bool advise_memory(void* first, size_t bytes, int advice);

}  // namespace uroce
