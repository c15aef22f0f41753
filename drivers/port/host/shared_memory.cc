#include "drivers/port/host/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "host/own_memory.h"

namespace uroce::drivers {
namespace {

/// Without the last one the others could be taken for a moment's.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr int kSealsNeeded = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

Error failed(const char* what, int error) { return {error, std::string(what) + ": " + std::strerror(error)}; }

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<OwnSharedMemory> OwnSharedMemory::create(const char* name, size_t bytes) {
  OwnSharedMemory memory{.descriptor = Descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)),
                         .mapping = {}};
  if (!memory.descriptor) return failed("shared memory", errno);
  if (ftruncate(memory.descriptor.number(), static_cast<off_t>(bytes)) != 0)
    return failed("shared memory", errno);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor.number(), 0);
  if (data == MAP_FAILED) return failed("shared memory", errno);
  memory.mapping = Mapping(static_cast<std::byte*>(data), bytes);
  // A forked child has nothing to do with it.
  madvise(data, bytes, MADV_DONTFORK);
  if (fcntl(memory.descriptor.number(), F_ADD_SEALS, kSeals) != 0)
    return failed("sealing shared memory", errno == EINVAL ? ENOSYS : errno);
  return memory;
}

Result<Mapping> map_foreign(int descriptor, size_t bytes) {
  // Only memory files have seals at all. What the seals keep from changing is looked at after them.
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSealsNeeded) != kSealsNeeded)
    return Error{EPERM, "another process's memory is not sealed"};
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || static_cast<size_t>(status.st_size) != bytes)
    return Error{EPERM, "another process's memory is of the wrong size"};
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return failed("another process's memory", errno);
  madvise(data, bytes, MADV_DONTFORK);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<Mapping> map_foreign(int descriptor, host::MemoryShape shape) {
  Result<Mapping> mapping = map_foreign(descriptor, host::MemoryLayout(shape).bytes());
  if (mapping && !host::has_format(mapping->data(), shape))
    return Error{EPROTO, "another process's memory is of another format"};
  return mapping;
}

}  // namespace uroce::drivers
