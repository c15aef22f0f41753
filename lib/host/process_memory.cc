// Decision: a tool opens a memory by O_PATH first, and for reading only when it is a memfd of the right name.
// A FUSE file, a device or a leased file would block or notice its opener. Cost: two more system calls.
#include "host/process_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

namespace uroce::host {
namespace {

using Folder = std::unique_ptr<DIR, decltype([](DIR* folder) { closedir(folder); })>;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Until `use` returns false.
void for_each_number_until(const std::string& folder, const std::function<bool(int)>& use) {
  const Folder open(opendir(folder.c_str()));
  if (open == nullptr) return;
  while (const dirent* const entry = readdir(open.get()))
    if (const auto number = number_in(entry->d_name); number && !use(*number)) return;
}

std::string path_of_descriptor(int pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

/// The name of the memfd that the link leads to; empty: it leads to none.
std::string memory_name(const std::string& link) {
  constexpr std::string_view kMemory = "/memfd:";
  constexpr std::string_view kGone = " (deleted)";  // as every memfd is
  std::array<char, 128> target{};
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  std::string_view name(target.data(), length > 0 ? static_cast<size_t>(length) : 0);
  if (!name.starts_with(kMemory)) return {};
  name.remove_prefix(kMemory.size());
  if (name.ends_with(kGone)) name.remove_suffix(kGone.size());
  return std::string(name);
}

struct Inode {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t number = 0;
  uint32_t owner = 0;
};

/// Without asking the process that serves the file (FUSE), which may never answer.
std::optional<Inode> inode_of(int folder, const char* path, int flags) {
  struct statx status {};
  if (statx(folder, path, flags | AT_STATX_DONT_SYNC, STATX_INO | STATX_UID, &status) != 0)
    return std::nullopt;
  return Inode{status.stx_dev_major, status.stx_dev_minor, status.stx_ino, status.stx_uid};
}

/// Files of other file systems may have any name, also that of a memfd: all memfds are on one.
bool is_where_memfds_are(const Inode& inode) {
  static const std::optional<Inode> own = [] {
    const Descriptor memory(memfd_create("uroce-none", MFD_CLOEXEC));
    return inode_of(memory.get(), "", AT_EMPTY_PATH);
  }();
  return own && own->major == inode.major && own->minor == inode.minor;
}

}  // namespace

void for_each_number(const std::string& folder, const std::function<void(int)>& use) {
  for_each_number_until(folder, [&](int number) {
    use(number);
    return true;
  });
}

std::vector<FoundMemory> memories_of(int pid, std::span<const std::string_view> names) {
  std::vector<FoundMemory> all;
  size_t looked_at = 0;
  for_each_number_until("/proc/" + std::to_string(pid) + "/fd", [&](int descriptor) {
    const std::string path = path_of_descriptor(pid, descriptor);
    const auto name = std::ranges::find(names, memory_name(path));
    const auto inode = name == names.end() ? std::nullopt : inode_of(AT_FDCWD, path.c_str(), 0);
    const auto is_known = [&](const FoundMemory& one) { return one.inode == inode->number; };
    if (inode && std::ranges::none_of(all, is_known)) all.push_back({pid, descriptor, inode->number, *name});
    return all.size() < kMemoriesOfProcessMax && ++looked_at < kDescriptorsLookedAtMax;
  });
  return all;
}

Result<OpenedMemory> open_memory(int pid, int descriptor, std::string_view name, int access) {
  // By this descriptor nothing can be done but to look at what it is, and what that is cannot change.
  const Descriptor place(open(path_of_descriptor(pid, descriptor).c_str(), O_PATH | O_CLOEXEC));
  if (!place.ok()) return Error{errno, std::strerror(errno)};
  const std::string own = "/proc/self/fd/" + std::to_string(place.get());
  const auto inode = inode_of(place.get(), "", AT_EMPTY_PATH);
  if (!inode || !is_where_memfds_are(*inode) || memory_name(own) != name)
    return Error{ENOENT, "is not there any more"};
  Descriptor opened(open(own.c_str(), access | O_CLOEXEC | O_NONBLOCK));
  if (!opened.ok()) return Error{errno, std::strerror(errno)};
  return OpenedMemory{std::move(opened), inode->number, inode->owner};
}

std::vector<int> processes_in_turns() {
  std::map<uint32_t, std::vector<int>> of_users;
  for_each_number("/proc", [&](int pid) {
    struct stat status {};
    if (stat(("/proc/" + std::to_string(pid)).c_str(), &status) == 0) of_users[status.st_uid].push_back(pid);
  });
  size_t most = 0;
  for (auto& [user, pids] : of_users) most = std::max(most, pids.size());
  std::vector<int> all;
  for (size_t turn = 0; turn < most; ++turn)
    for (const auto& [user, pids] : of_users)
      if (turn < pids.size()) all.push_back(pids[turn]);
  return all;
}

}  // namespace uroce::host
