#include "service/listening_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "host/control.h"

namespace uroce::service {
namespace {

constexpr uint32_t kOthers = 077;

std::string lock_of(const std::string& path) { return path + ".lock"; }

Error failed(const std::string& path, std::string_view what) {
  const int code = errno;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(code))};
}

/// Only its owner, the superuser or we may rename and remove what is in the folder.
Status prepare_folder(const std::string& path, uint32_t mode) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) return {};
  const mode_t wanted = (mode & kOthers) != 0 ? 0755 : 0700;
  if (mkdir(folder.c_str(), wanted) != 0 && errno != EEXIST) return failed(folder, "cannot make the folder");
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return failed(folder, "cannot look at the folder");
  if (!S_ISDIR(status.st_mode)) return Error{ENOTDIR, folder + ": is no folder"};
  const bool sticky = (status.st_mode & S_ISVTX) != 0;
  if (!sticky && status.st_uid != geteuid() && status.st_uid != 0)
    return Error{EACCES, fmt::format("{}: the folder belongs to another user ({})", folder, status.st_uid)};
  if (!sticky && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{EACCES, folder + ": other users may write to the folder"};
  return {};
}

/// The process that wrote its number into the lock.
std::string holder_of(int lock) {
  std::array<char, 16> text{};
  const ssize_t length = pread(lock, text.data(), text.size() - 1, 0);
  return length > 0 ? fmt::format(" (process {})", text.data()) : "";
}

Result<Descriptor> take_lock(const std::string& path) {
  const std::string name = lock_of(path);
  // One that is removed between open() and flock() is no lock any more.
  for (int tries = 0; tries < 100; ++tries) {
    Descriptor lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.ok()) return failed(name, "cannot lock");
    struct stat held {};
    struct stat named {};
    if (fstat(lock.get(), &held) != 0) return failed(name, "cannot lock");
    if (held.st_uid != geteuid()) return Error{EACCES, name + ": belongs to another user"};
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return failed(name, "cannot lock");
      return Error{EADDRINUSE, fmt::format("{}: {}{}", path, host::kAnotherService, holder_of(lock.get()))};
    }
    if (stat(name.c_str(), &named) != 0 || named.st_ino != held.st_ino || named.st_dev != held.st_dev)
      continue;
    const std::string number = fmt::format("{}", getpid());
    // For people: a full disk only costs them the number.
    if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), number.data(), number.size(), 0) < 0) errno = 0;
    return lock;
  }
  return Error{EAGAIN, name + ": others take it again and again"};
}

/// What a killed service has left. The lock is ours.
Status remove_stale(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? Status() : failed(path, "cannot look at it");
  if (!S_ISSOCK(status.st_mode)) return Error{EEXIST, path + ": is there, and is no socket"};
  if (unlink(path.c_str()) != 0) return failed(path, "cannot remove the socket that a service has left");
  return {};
}

bool is_listening(int socket) {
  int type = 0;
  int listens = 0;
  socklen_t length = sizeof type;
  if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return false;
  length = sizeof listens;
  if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0) return false;
  return type == SOCK_SEQPACKET && listens != 0;
}

bool is_number(const char* variable, long number) {
  const char* const text = std::getenv(variable);
  return text != nullptr && text == std::to_string(number);
}

}  // namespace

Result<ListeningSocket> ListeningSocket::open(const Options& options) {
  const std::string& path = options.path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{ENAMETOOLONG, fmt::format("{}: the path of a socket has 1 to {} bytes", path,
                                           sizeof address.sun_path - 1)};
  path.copy(address.sun_path, path.size());
  if (Status status = prepare_folder(path, options.mode); !status) return status.error();
  auto lock = take_lock(path);
  if (!lock) return lock.error();
  // From here on both files go when something fails.
  ListeningSocket listening(Descriptor(), std::move(*lock), path);
  if (Status status = remove_stale(path); !status) return status.error();
  listening.socket_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int number = listening.socket_.get();
  // Of the socket, for the file that bind() makes: there is no moment in which others could connect.
  if (number < 0 || fchmod(number, options.mode) != 0 ||
      bind(number, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed(path, "cannot make the socket");
  // What the process's file mode mask has taken away.
  if (chmod(path.c_str(), options.mode) != 0 || listen(number, SOMAXCONN) != 0)
    return failed(path, "cannot listen");
  return listening;
}

std::optional<Result<ListeningSocket>> ListeningSocket::inherited() {
  constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
  if (!is_number("LISTEN_PID", getpid())) return std::nullopt;
  const bool one = is_number("LISTEN_FDS", 1);
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  if (!one) return Error{EINVAL, "systemd hands over other than one socket (LISTEN_FDS)"};
  Descriptor socket(kFirst);
  if (!is_listening(kFirst))
    return Error{EINVAL, "systemd's socket is not of sequenced packets (ListenSequentialPacket=)"};
  if (fcntl(kFirst, F_SETFD, FD_CLOEXEC) != 0 || fcntl(kFirst, F_SETFL, O_NONBLOCK) != 0)
    return failed("systemd's socket", "cannot be used");
  sockaddr_un address{};
  socklen_t length = sizeof address;
  std::string path;
  if (getsockname(kFirst, reinterpret_cast<sockaddr*>(&address), &length) == 0)
    path.assign(address.sun_path, strnlen(address.sun_path, sizeof address.sun_path));
  return ListeningSocket(std::move(socket), Descriptor(), std::move(path));
}

ListeningSocket::~ListeningSocket() {
  if (!lock_.ok()) return;
  if (socket_.ok()) unlink(path_.c_str());
  unlink(lock_of(path_).c_str());
}

}  // namespace uroce::service
