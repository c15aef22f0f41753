#include "base/process/uninherited_descriptor.h"

#include <pthread.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/process/cancellation.h"

namespace uroce {
namespace {

/// All that are open, with their inodes. The lock is taken while the process forks.
struct OpenDescriptors {
  std::mutex mutex;
  std::map<int, ino_t> inodes;
};
OpenDescriptors& open_descriptors() {
  static auto* all = new OpenDescriptors;  // never destroyed: a process may end with devices open
  return *all;
}

ino_t inode_of(int descriptor) {
  struct stat file {};
  return fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

void close_if_ours(int descriptor, ino_t inode) {
  if (inode != 0 && inode_of(descriptor) == inode) close(descriptor);
}

void close_in_children() {
  static const int registered =
      pthread_atfork([] { open_descriptors().mutex.lock(); }, [] { open_descriptors().mutex.unlock(); },
                     [] {
                       // No memory is given back here: allocators are not at home in a forked child.
                       for (auto& [descriptor, inode] : open_descriptors().inodes)
                         close_if_ours(descriptor, std::exchange(inode, 0));
                       open_descriptors().mutex.unlock();
                     });
  (void)registered;
}
// From the load on: no thread registers while another forks.
[[maybe_unused]] const bool closes_in_children = (close_in_children(), true);

}  // namespace

UninheritedDescriptor::UninheritedDescriptor(Descriptor descriptor) {
  if (descriptor.ok()) *this = opened([&] { return std::move(descriptor); });
}

UninheritedDescriptor UninheritedDescriptor::opened(const std::function<Descriptor()>& open) {
  const CancellationDisabled held;  // under a lock
  close_in_children();
  const std::lock_guard guard(open_descriptors().mutex);
  Descriptor descriptor = open();
  UninheritedDescriptor kept;
  if (!descriptor.ok()) return kept;
  const ino_t inode = inode_of(descriptor.get());
  open_descriptors().inodes[descriptor.get()] = inode;
  kept.inode_ = inode;
  kept.number_ = descriptor.release();
  return kept;
}

UninheritedDescriptor::UninheritedDescriptor(UninheritedDescriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)), inode_(other.inode_) {}

UninheritedDescriptor& UninheritedDescriptor::operator=(UninheritedDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  std::swap(inode_, other.inode_);
  return *this;
}

bool UninheritedDescriptor::is_open() const {
  return number_ >= 0 && inode_ != 0 && inode_of(number_) == inode_;
}

UninheritedDescriptor::~UninheritedDescriptor() {
  if (number_ < 0) return;
  const CancellationDisabled held;  // under a lock
  const std::lock_guard guard(open_descriptors().mutex);
  const auto at = open_descriptors().inodes.find(number_);
  // In a child it is closed already, and another one may have its number.
  if (at == open_descriptors().inodes.end() || at->second != inode_) return;
  close_if_ours(number_, inode_);
  open_descriptors().inodes.erase(at);
}

}  // namespace uroce
