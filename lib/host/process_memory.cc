#include "host/process_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
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

/// The device number of every memfd of ordinary pages. No other file has it.
Result<dev_t> device_of_memory() {
  const Descriptor any(memfd_create("uroce-any", MFD_CLOEXEC));
  struct stat status {};
  if (!any.ok() || fstat(any.get(), &status) != 0) return Error{errno, std::strerror(errno)};
  return status.st_dev;
}

}  // namespace

void for_each_number(const std::string& folder, const std::function<void(int)>& use) {
  const Folder open(opendir(folder.c_str()));
  if (open == nullptr) return;
  while (const dirent* const entry = readdir(open.get()))
    if (const auto number = number_in(entry->d_name)) use(*number);
}

void for_each_memory(int pid, const std::function<void(std::string_view name, int descriptor)>& use) {
  constexpr std::string_view kMemory = "/memfd:";
  constexpr std::string_view kGone = " (deleted)";  // as every memfd is
  for_each_number("/proc/" + std::to_string(pid) + "/fd", [&](int descriptor) {
    std::array<char, 128> target{};
    const ssize_t length =
        readlink(path_of_descriptor(pid, descriptor).c_str(), target.data(), target.size());
    if (length <= 0) return;
    std::string_view name(target.data(), static_cast<size_t>(length));
    if (!name.starts_with(kMemory)) return;
    name.remove_prefix(kMemory.size());
    if (name.ends_with(kGone)) name.remove_suffix(kGone.size());
    use(name, descriptor);
  });
}

Result<Descriptor> open_memory(int pid, int descriptor, int access) {
  // Names the file and does not open it, so no driver and no file system hears of it.
  const Descriptor found(open(path_of_descriptor(pid, descriptor).c_str(), O_PATH | O_CLOEXEC));
  if (!found.ok()) return Error{errno, std::strerror(errno)};
  struct statx status {};
  // What the kernel knows already: the file system, which may be another user's, is not asked.
  const bool looked = statx(found.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0;
  const auto memory = device_of_memory();
  if (!memory) return memory.error();
  if (!looked || makedev(status.stx_dev_major, status.stx_dev_minor) != *memory)
    return Error{ENOENT, "is no memory"};
  // A lease of its owner would make open() wait.
  Descriptor opened(open(path_of_descriptor(getpid(), found.get()).c_str(), access | O_CLOEXEC | O_NONBLOCK));
  if (!opened.ok()) return Error{errno, std::strerror(errno)};
  return opened;
}

std::string path_of_descriptor(int pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

}  // namespace uroce::host
