#include "host/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "host/own_memory.h"

namespace uroce::host {
namespace {

constexpr int kSingleWriter = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

Error failed(const char* what, int code) { return {code, std::string(what) + ": " + std::strerror(code)}; }

Error refused(int code, const char* why) { return {code, std::string("shared memory ") + why}; }

/// Hugepages may run out when they are first used, which is a SIGBUS; a hole in tmpfs gets a page. Call this
/// only for a file that has seals: for any other file fstatfs() may wait for its file system.
bool has_ordinary_pages(int memory) {
  struct statfs file_system {};
  return fstatfs(memory, &file_system) == 0 && file_system.f_type == TMPFS_MAGIC;
}

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<SealedMemory> make_sealed_memory(const char* name, size_t bytes) {
  Descriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.ok()) return failed("shared memory", errno);
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) return failed("shared memory", errno);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return failed("shared memory", errno);
  Mapping mapping(static_cast<std::byte*>(data), bytes);
  madvise(data, bytes, MADV_DONTFORK);
  // Without the last one the others could be taken for a moment's.
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSingleWriter | F_SEAL_SEAL) != 0)
    return failed("sealing shared memory", errno == EINVAL ? ENOSYS : errno);
  return SealedMemory{std::move(descriptor), std::move(mapping)};
}

HeldDescriptor::HeldDescriptor(Descriptor descriptor)
    : descriptor_(std::move(descriptor)), inode_(inode_of(descriptor_.get())) {}

HeldDescriptor::~HeldDescriptor() {
  if (descriptor_.ok() && get() < 0) (void)descriptor_.release();
}

int HeldDescriptor::get() const {
  return inode_ && inode_of(descriptor_.get()) == inode_ ? descriptor_.get() : -1;
}

HeldDescriptor::Inode HeldDescriptor::inode_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

Result<OpenMemory> make_open_memory(const char* name, size_t bytes) {
  Descriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.ok()) return failed(name, errno);
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) return failed(name, errno);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return failed(name, errno);
  Mapping mapping(static_cast<std::byte*>(data), bytes);
  // No access to it faults, whatever others do.
  if (fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed(name, errno == EINVAL ? ENOSYS : errno);
  return OpenMemory{HeldDescriptor(std::move(descriptor)), std::move(mapping)};
}

Result<Mapping> map_open_memory(int descriptor, size_t bytes_min) {
  const int seals = fcntl(descriptor, F_GET_SEALS);  // first: see size_of_sealed_memory()
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !has_ordinary_pages(descriptor))
    return Error{EPROTO, "are not sealed against truncation"};
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return Error{EPROTO, "cannot be looked at"};
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < bytes_min) return Error{EPROTO, "are truncated"};
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return Error{errno, std::string("cannot be mapped: ") + std::strerror(errno)};
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<size_t> size_of_sealed_memory(int descriptor) {
  // What the seals keep from changing is looked at after them.
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || !has_ordinary_pages(descriptor)) return refused(EPERM, "is no memfd of ordinary pages");
  if ((seals & kSingleWriter) != kSingleWriter)
    return refused(EPERM, "is not sealed (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE)");
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return refused(EPERM, "is no memfd of ordinary pages");
  return static_cast<size_t>(status.st_size);
}

Result<Mapping> map_sealed_memory(int descriptor, size_t bytes) {
  const auto size = size_of_sealed_memory(descriptor);
  if (!size) return size.error();
  if (*size != bytes) return refused(EPERM, "has another size");
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return failed("mapping shared memory", errno);
  madvise(data, bytes, MADV_DONTFORK);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<Mapping> map_sealed_memory(int descriptor, MemoryShape shape) {
  Result<Mapping> mapping = map_sealed_memory(descriptor, MemoryLayout(shape).bytes());
  if (mapping && !has_format(mapping->data(), shape)) return refused(EPROTO, "has another format");
  return mapping;
}

}  // namespace uroce::host
