// Decision: a program shows the former service's memory to have its numbers again. No other user can make or
// change such memory, so nothing is kept in files.
#include "service/granted_numbers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "host/shared_memory.h"

namespace uroce::service {

Result<NumberBlock> granted_numbers(int descriptor, uid_t user) {
  const Error refused{EPERM,
                      "the queue pair numbers that the program had were not given to it, or no more its own"};
  const auto mapping = host::map_sealed_memory(descriptor, host::kServiceMemory);
  struct stat status {};
  // Nothing but the mapping of its maker, which was there before the seals, can write it.
  if (!mapping || fstat(descriptor, &status) != 0 || status.st_uid != geteuid()) return refused;
  constexpr host::MemoryLayout layout(host::kServiceMemory);
  const host::Grant& grant = layout.grant(static_cast<const std::byte*>(mapping->data()));
  // Relaxed: the service that wrote it has ended, or is this one.
  if (grant.valid.load(std::memory_order_relaxed) == 0 || grant.user != user) return refused;
  return NumberBlock{grant.first, grant.count};
}

}  // namespace uroce::service
