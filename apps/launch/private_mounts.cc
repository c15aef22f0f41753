// How a file appears in /sys/class and /dev, where no program can make one.
//
// A tmpfs is mounted over a directory, in a mount namespace that only this process and its children see.
// Where /sys/class/infiniband and /dev/infiniband exist (the kernel has an RDMA driver), it covers only
// these. Else it covers their parent, and every other entry of that is mounted in it again: the same inodes
// as before. A privileged user makes /dev/infiniband instead, because a covered /dev lacks the nodes of
// devices that come later; that directory stays, empty, as the kernel's own would.
//
// In place of a device's node stands that of /dev/null: a program that asks whether there is a character
// device finds one, and cannot open more than that.
//
// Files are shown in a mount namespace, not by a preloaded library in front of stat, access and open:
// programs reach files in too many ways (statx, openat, plain system calls, a static libc). Cost: nothing is
// shown where there are no namespaces.
// Only /sys and /dev stop sharing mounts; a privileged program that mounts a file system does so for
// everybody, as without uroce. In sysfs no user can make directories, and overlayfs shows no device nodes to
// ordinary users, so a parent is covered; cost: a line in /proc/self/mounts for each of its entries.
#include "apps/launch/private_mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "apps/launch/user_namespace.h"
#include "base/process/descriptor.h"

namespace uroce::launch {
namespace {

namespace fs = std::filesystem;

constexpr unsigned long kOursFlags = MS_NOSUID | MS_NOEXEC;
constexpr const char* kNodes = "/dev/infiniband";

/// What to do where /dev/infiniband is missing and could be made.
enum class MissingFolder { kMake, kCover };

uint64_t capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return 0;
  return uint64_t{sets[1].effective} << 32 | sets[0].effective;
}

bool is_privileged() { return (capabilities() >> CAP_SYS_ADMIN & 1) != 0; }

Status write_text(const std::string& path, std::string_view text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file.ok()) return failed(path);
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return failed(path);
  return {};
}

/// A user namespace takes capabilities over everything outside it, and gives ones that nothing outside heeds.
Status enter_namespace() {
  if (is_privileged()) return unshare(CLONE_NEWNS) == 0 ? Status() : failed("no mount namespace");
  if (capabilities() != 0) {
    return Error{EPERM,
                 "no mount namespace without CAP_SYS_ADMIN, and a user namespace would take this "
                 "process's other capabilities"};
  }
  const Status status = enter_user_namespace();
  if (!status) return status;
  return unshare(CLONE_NEWNS) == 0 ? Status() : failed("no mount namespace");
}

/// What is mounted on it from now on is this namespace's alone.
Status detach(const char* mounted) {
  return mount(nullptr, mounted, nullptr, MS_SLAVE, nullptr) == 0 ? Status() : failed(mounted);
}

/// The directories that a tmpfs of ours lies over.
class Covers {
 public:
  Status add(const std::string& directory) {
    if (mount("uroce", directory.c_str(), "tmpfs", kOursFlags, "mode=0755,size=4m") != 0)
      return failed(directory);
    directories_.push_back(directory);
    return {};
  }
  /// With all that is mounted in them.
  void remove() {
    for (; !directories_.empty(); directories_.pop_back()) umount2(directories_.back().c_str(), MNT_DETACH);
  }

 private:
  std::vector<std::string> directories_;
};

Status make_read_only(const std::string& directory) {
  const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | kOursFlags;
  return mount(nullptr, directory.c_str(), nullptr, flags, nullptr) == 0 ? Status() : failed(directory);
}

/// The entry of `from` appears at `to`, with all that is mounted below it.
Status carry_over(const Descriptor& from, const dirent& entry, const std::string& to) {
  if (entry.d_type == DT_LNK) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlinkat(from.get(), entry.d_name, target.data(), target.size() - 1);
    return length > 0 && symlink(target.data(), to.c_str()) == 0 ? Status() : failed(to);
  }
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW;
  const Descriptor tree(open_tree(from.get(), entry.d_name, flags));
  if (!tree.ok()) return errno == ENOENT ? Status() : failed(to);  // it has gone meanwhile
  if (entry.d_type == DT_DIR ? mkdir(to.c_str(), 0755) != 0 : mknod(to.c_str(), S_IFREG | 0600, 0) != 0)
    return failed(to);
  if (move_mount(tree.get(), "", AT_FDCWD, to.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) return failed(to);
  return {};
}

/// Covers `directory` by a tmpfs in which everything but `names` is what it was.
Status cover(const std::string& directory, std::span<const std::string_view> names, Covers& covers) {
  const Descriptor covered(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!covered.ok()) return failed(directory);
  Status status = covers.add(directory);
  if (!status) return status;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(dup(covered.get())), closedir);
  if (!entries) return failed(directory);
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || std::ranges::find(names, name) != names.end()) continue;
    status = carry_over(covered, *entry, fmt::format("{}/{}", directory, name));
    if (!status) return status;
  }
  return {};
}

Status show_attributes(const std::vector<TextFile>& attributes, Covers& covers) {
  constexpr std::array<std::string_view, 2> kNames = {"infiniband", "infiniband_verbs"};
  const fs::path top = "/sys/class";
  std::error_code error;
  const bool exist =
      std::ranges::all_of(kNames, [&](std::string_view name) { return fs::is_directory(top / name, error); });
  Status status = detach("/sys");
  if (status && !exist) status = cover(top, kNames, covers);
  for (const std::string_view name : kNames) {
    if (status && exist) status = covers.add(top / name);
  }
  fs::path folder;
  for (const TextFile& file : attributes) {
    if (!status) return status;
    if (const fs::path its = (top / file.path).parent_path(); its != folder) {
      fs::create_directories(its, error);
      folder = its;
    }
    status = write_text(top / file.path, file.text);
  }
  if (status && !exist) return make_read_only(top);
  for (const std::string_view name : kNames) {
    if (status) status = make_read_only(top / name);
  }
  return status;
}

Status show_nodes(const std::vector<std::string>& nodes, MissingFolder missing, Covers& covers) {
  constexpr std::array<std::string_view, 1> kNames = {"infiniband"};
  std::error_code error;
  bool exists = fs::is_directory(kNodes, error);
  if (!exists && is_privileged() && missing == MissingFolder::kMake) exists = mkdir(kNodes, 0755) == 0;
  Status status = detach("/dev");
  if (status) status = exists ? covers.add(kNodes) : cover("/dev", kNames, covers);
  if (status && !exists && mkdir(kNodes, 0755) != 0) status = failed(kNodes);
  for (const std::string& node : nodes) {
    if (!status) return status;
    const std::string path = fmt::format("{}/{}", kNodes, node);
    status = write_text(path, "");
    if (status && mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) != 0) status = failed(path);
  }
  return status ? make_read_only(exists ? kNodes : "/dev") : status;
}

Status show_all(const DeviceFiles& files, MissingFolder missing) {
  Covers covers;
  Status status = enter_namespace();
  if (status) status = show_attributes(files.attributes, covers);
  if (status) status = show_nodes(files.nodes, missing, covers);
  if (!status) covers.remove();
  return status;
}

/// What an ordinary user may be refused: the namespaces, and to mount in them.
Status show_least() {
  Covers covers;
  Status status = enter_namespace();
  if (status) status = detach("/sys");
  return status ? covers.add("/sys/class") : status;
}

/// What `function` comes to in a process of its own.
template <typename Function>
Status attempt_elsewhere(Function function) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe");
  const pid_t child = fork();
  if (child < 0) {
    const Status status = failed("fork");
    for (const int end : ends) close(end);
    return status;
  }
  if (child == 0) {
    const Status status = function();
    const std::string result = status ? "." : status.error().message;
    _exit(write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string result;
  std::array<char, 256> part{};
  for (ssize_t count = 1; count > 0;
       result.append(part.data(), static_cast<size_t>(std::max<ssize_t>(count, 0))))
    count = read(ends[0], part.data(), part.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (result == ".") return {};
  return Error{EPERM, result.empty() ? "the process that tried it has died" : result};
}

}  // namespace

Status show_device_files(const DeviceFiles& files) {
  if (are_present(files)) return {};
  // A process cannot leave a user namespace, in which it may turn out not to have the right to mount.
  if (!is_privileged())
    if (Status possible = attempt_elsewhere(show_least); !possible) return possible;
  return show_all(files, MissingFolder::kMake);
}

Status can_show_device_files(const DeviceFiles& files) {
  if (are_present(files)) return {};
  return attempt_elsewhere([&] { return show_all(files, MissingFolder::kCover); });
}

}  // namespace uroce::launch
