#include "service/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "host/own_memory.h"

namespace uroce::service {
namespace {

constexpr int kSingleWriter = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

Error failed(const char* what) {
  const int code = errno;
  return {code, std::string(what) + ": " + std::strerror(code)};
}

Error refused(const char* why) { return {EINVAL, std::string("the program's memory ") + why}; }

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<SealedMemory> make_sealed_memory(const char* name, size_t bytes) {
  Descriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.ok()) return failed("memfd_create");
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) return failed("memory to share");
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return failed("memory to share");
  Mapping mapping(static_cast<std::byte*>(data), bytes);
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSingleWriter | F_SEAL_SEAL) != 0)
    return failed("sealing shared memory");
  return SealedMemory{std::move(descriptor), std::move(mapping)};
}

Result<Mapping> map_program_memory(int descriptor, host::MemoryShape shape) {
  // Hugepages may run out when they are first used, which is a SIGBUS; a hole in tmpfs gets a page.
  struct statfs file_system {};
  if (fstatfs(descriptor, &file_system) != 0 || file_system.f_type != TMPFS_MAGIC)
    return refused("is no memfd");
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) return refused("is no memfd");
  if ((seals & kSingleWriter) != kSingleWriter)
    return refused("is not sealed (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE)");
  const size_t bytes = host::MemoryLayout(shape).bytes();
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(bytes))
    return refused("has another size");
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return failed("the program's memory");
  Mapping mapping(static_cast<std::byte*>(data), bytes);
  if (!host::has_format(mapping.data(), shape)) return refused("has another format");
  return mapping;
}

Result<NumberBlock> granted_numbers(int descriptor, uid_t user) {
  const Error refused{EPERM,
                      "the queue pair numbers that the program had were not given to it, or no more its own"};
  auto mapping = map_program_memory(descriptor, host::kServiceMemory);
  struct stat status {};
  // Nothing but the mapping of its maker, which was there before the seals, can write it.
  if (!mapping || fstat(descriptor, &status) != 0 || status.st_uid != geteuid()) return refused;
  const host::Grant& grant =
      host::MemoryLayout(host::kServiceMemory).grant(static_cast<const std::byte*>(mapping->data()));
  // Relaxed: the service that wrote it has ended, or is this one.
  if (grant.valid.load(std::memory_order_relaxed) == 0 || grant.user != user) return refused;
  return NumberBlock{grant.first, grant.count};
}

}  // namespace uroce::service
