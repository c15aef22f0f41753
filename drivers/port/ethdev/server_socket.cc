// Whether a memif or vhost server lives is asked by a socket of another kind: a DPDK server panics when a
// visitor leaves before it could say hello.
#include "drivers/port/ethdev/server_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/kernel/pmd_traits.h"

namespace uroce::drivers {
namespace {

/// Servers of this process by socket file: several memif interfaces may share one.
struct ServerTable {
  std::mutex mutex;
  std::map<std::string, int> servers;
};

ServerTable& server_table() {
  static auto* table = new ServerTable;  // never destroyed: ports may be closed during exit
  return *table;
}

enum class Listener { kNone, kAlive, kUnknown };

/// Whether a process listens on the socket file `path`. It is not visited, because a DPDK server panics when
/// its visitor has gone before it could say hello: servers have connections, and sockets of another kind are
/// told only whether there is a listener.
Listener listener_on(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return Listener::kUnknown;
  const int failed = connect(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int code = errno;
  close(socket_fd);
  if (failed == 0 || code == EPROTOTYPE) return Listener::kAlive;
  return code == ECONNREFUSED ? Listener::kNone : Listener::kUnknown;
}

Status clear_path(const std::string& port, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string folder_name = folder.empty() ? "." : folder.string();
  if (access(folder_name.c_str(), W_OK) != 0) {
    return Error{errno, port + ": cannot make socket " + path + ": " + std::strerror(errno)};
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return Error{EEXIST, port + ": " + path + " exists and is not a socket"};
  switch (listener_on(path)) {
    case Listener::kAlive:
      return Error{EBUSY, port + ": another process listens on " + path};
    case Listener::kUnknown:
      return Error{EEXIST, port + ": " + path + " exists and cannot be examined"};
    case Listener::kNone:
      break;
  }
  if (unlink(path.c_str()) != 0) {
    return Error{errno, port + ": cannot remove the stale socket " + path + ": " + std::strerror(errno)};
  }
  return {};
}

}  // namespace

Result<ServerSocket> ServerSocket::claim(const Devargs& devargs) {
  const std::optional<MemifEnd> memif = memif_end(devargs);
  if (!memif && !pmd_traits(devargs.name()).iface_is_socket) return ServerSocket{};
  const std::string path = memif ? memif->socket : std::string(devargs.value("iface").value_or(""));
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{EINVAL, devargs.name() + ": socket path '" + path + "' is empty or too long"};
  }
  const bool serves = memif ? memif->serves_file() : devargs.value("client").value_or("0") == "0";
  if (!serves) return ServerSocket{};

  ServerTable& table = server_table();
  const std::lock_guard lock(table.mutex);
  if (!table.servers.contains(path)) {
    const Status clear = clear_path(devargs.name(), path);
    if (!clear) return clear.error();
  }
  ++table.servers[path];
  return ServerSocket(path);
}

ServerSocket::ServerSocket(ServerSocket&& other) noexcept : path_(std::exchange(other.path_, {})) {}

ServerSocket& ServerSocket::operator=(ServerSocket&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

ServerSocket::~ServerSocket() {
  if (path_.empty()) return;
  ServerTable& table = server_table();
  const std::lock_guard lock(table.mutex);
  const auto entry = table.servers.find(path_);
  if (--entry->second > 0) return;
  table.servers.erase(entry);
  unlink(path_.c_str());
}

}  // namespace uroce::drivers
