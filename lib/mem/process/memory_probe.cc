#include "mem/process/memory_probe.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/tables/memory_calls.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace uroce::mem {
namespace {

uintptr_t page_bytes() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// A futex call makes the kernel access one word in our stead and answer EFAULT where we would get a signal.
// Nothing but the access happens; at worst a thread that waits on that very word wakes early, which futexes
// may do anyway.

bool word_readable(uintptr_t address) {
  uint32_t no_waiters_here = 0;
  const uint32_t compared_with = 0;  // equal or not: there is no waiter to wake or move
  const long result =
      ::syscall(SYS_futex, address, FUTEX_CMP_REQUEUE_PRIVATE, 0, nullptr, &no_waiters_here, compared_with);
  return result >= 0 || errno != EFAULT;
}

/// Atomically ors 0 into the word: a write that changes nothing, whichever thread writes meanwhile.
bool word_writable(uintptr_t address) {
  uint32_t no_waiters_here = 0;
  const uint32_t or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0xABC);
  const long result =
      ::syscall(SYS_futex, &no_waiters_here, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, address, or_zero);
  return result >= 0 || errno != EFAULT;
}

}  // namespace

bool probe_pages(const std::byte* address, uint64_t length, bool write) {
  const uintptr_t page = page_bytes();
  const uintptr_t first = reinterpret_cast<uintptr_t>(address) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(address) + (length - 1)) & ~(page - 1);
  for (uintptr_t at = first;; at += page) {
    if (!word_readable(at) || (write && !word_writable(at))) return false;
    if (at == last) return true;
  }
}

bool probe_memory(const std::byte* address, uint64_t length, bool write) {
  const uintptr_t page = page_bytes();
  const uintptr_t first = reinterpret_cast<uintptr_t>(address) & ~(page - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + (length - 1) + 1;
  const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (advise_memory(reinterpret_cast<void*>(first), end - first, advice)) return true;
  // EFAULT: an access would raise SIGBUS. ENOMEM: not mapped. EINVAL and others leave it open: an old kernel,
  // a mapping that cannot be populated, or one without the permission.
  if (errno == EFAULT || errno == ENOMEM) return false;
  return probe_pages(address, length, write);
}

}  // namespace uroce::mem
