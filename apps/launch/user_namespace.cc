// An ordinary user's process tries the namespaces and one mount in a child first, because it cannot leave a
// user namespace in which it may have no right to mount.
// Programs that one user starts with `uroce run` share a user namespace, which the first one makes: Linux
// lets a process read another's memory (process_vm_readv) only in its own, and Open MPI hangs otherwise.
// Cost: a look at the user's processes, and a lock on a file that no other user can open (`uroce.turn` in
// $XDG_RUNTIME_DIR, or /tmp/uroce-UID.turn), for which a process waits a second at most. Where another user
// has taken that name no process waits, and two that start at once may be in two namespaces.
#include "apps/launch/user_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "base/process/descriptor.h"

namespace uroce::launch {

Status failed(std::string_view what) {
  const int error = errno;
  return Error{error, fmt::format("{}: {}", what, std::strerror(error))};
}

namespace {

namespace fs = std::filesystem;

/// A lock file that no other user can open: a process that can open a file can hold its lock for ever.
Descriptor file_of_user() {
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  const std::string path = folder != nullptr && *folder == '/' ? std::string(folder) + "/uroce.turn"
                                                               : fmt::format("/tmp/uroce-{}.turn", geteuid());
  // Without O_NONBLOCK another user's file of that name, a FIFO or one with a lease, could keep open()
  // waiting.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat found {};
  const bool own = file.ok() && fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                   found.st_uid == geteuid() && (found.st_mode & 077) == 0;
  return own ? std::move(file) : Descriptor();
}

/// Where several processes start at the same time the first makes the namespace and the others wait for it, a
/// second at most. Where another user has taken the lock's name no process waits, and there may be two
/// namespaces.
class Turn {
 public:
  Turn() : file_(file_of_user()) {
    constexpr int kTriesMax = 100;
    for (int i = 0; i < kTriesMax && flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  Descriptor file_;
};

bool same_file(int one, int other) {
  struct stat first {
  }, second{};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Whether an ID map has one line, for `id` as itself.
bool maps_only(const fs::path& map, unsigned id) {
  std::ifstream in(map);
  unsigned inside = 0, outside = 0, count = 0;
  std::string more;
  return in >> inside >> outside >> count && inside == id && outside == id && count == 1 && !(in >> more);
}

/// Whether the process is in a namespace like the one that we would make.
bool is_of_our_kind(const fs::path& process, int user_namespace, int own) {
  uid_t owner = 0;
  if (ioctl(user_namespace, NS_GET_OWNER_UID, &owner) != 0 || owner != geteuid()) return false;
  const Descriptor parent(ioctl(user_namespace, NS_GET_PARENT));
  return parent.ok() && same_file(parent.get(), own) && maps_only(process / "uid_map", geteuid()) &&
         maps_only(process / "gid_map", getegid());
}

bool join_another() {
  const Descriptor own(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    struct stat found {};
    if (stat(process->path().c_str(), &found) != 0 || found.st_uid != geteuid()) continue;
    const Descriptor theirs(open((process->path() / "ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    if (!theirs.ok() || same_file(theirs.get(), own.get())) continue;
    if (is_of_our_kind(process->path(), theirs.get(), own.get()) && setns(theirs.get(), CLONE_NEWUSER) == 0)
      return true;
  }
  return false;
}

Status write_map(const char* path, const std::string& text) {
  const Descriptor file(open(path, O_WRONLY | O_CLOEXEC));
  if (!file.ok() || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return failed(path);
  return {};
}

}  // namespace

Status enter_user_namespace() {
  const Turn turn;
  if (join_another()) return {};
  const std::string user = fmt::format("{0} {0} 1", geteuid());
  const std::string group = fmt::format("{0} {0} 1", getegid());
  if (unshare(CLONE_NEWUSER) != 0) return failed("no user namespace");
  Status status = write_map("/proc/self/setgroups", "deny");
  if (status) status = write_map("/proc/self/uid_map", user);
  if (status) status = write_map("/proc/self/gid_map", group);
  return status;
}

}  // namespace uroce::launch
