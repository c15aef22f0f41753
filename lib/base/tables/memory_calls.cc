// Programs put hooks in front of libc's mmap, munmap, mremap and madvise for their registration caches, and
// UCX 1.13's mremap loses the target. So memory of the stack's own comes from the system calls. Cost: such a
// cache is not notified of this memory, which it never sees. Memory that was handed to the program ends by
// libc's munmap, so that it does.
#include "base/tables/memory_calls.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {
namespace {

std::byte* answer(long result) { return result == -1 ? nullptr : reinterpret_cast<std::byte*>(result); }

}  // namespace

std::byte* map_memory(std::byte* place, size_t bytes, int protection, int flags) {
  std::byte* const made =
      answer(::syscall(SYS_mmap, place, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0L));
  if (made == nullptr || place == nullptr || made == place) return made;
  // Kernels before 4.17 take MAP_FIXED_NOREPLACE for a hint.
  unmap_memory(made, bytes);
  errno = EEXIST;
  return nullptr;
}

void unmap_memory(void* first, size_t bytes) { (void)::syscall(SYS_munmap, first, bytes); }

bool move_memory(void* from, size_t bytes, std::byte* place) {
  return answer(::syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place)) == place;
}

bool advise_memory(void* first, size_t bytes, int advice) {
  return ::syscall(SYS_madvise, first, bytes, advice) == 0;
}

}  // namespace uroce
