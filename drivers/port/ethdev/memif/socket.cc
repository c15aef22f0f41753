// Both ends of a memif belong to one user, or one end to root (SO_PEERCRED), because net_memif uses its
// peer's descriptors, regions and ring indices unchecked. The socket's file has mode 0600, and the driver's
// own socket stands in a folder of mode 0700 until it has no name.
// socket-abstract=no is the default. Cost: a foreign DPDK program that leaves socket-abstract out must be
// told "no", or uroce "yes".
#include "drivers/port/ethdev/memif/socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "base/process/descriptor.h"
#include "drivers/port/ethdev/interrupt_source.h"
#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/ethdev/memif/unix_socket.h"

namespace uroce::drivers {
namespace {

/// A name that no other living socket on the machine has: it is that of a socket's inode.
class OwnName {
 public:
  OwnName() : reserved_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    struct stat status {};
    fstat(reserved_.get(), &status);
    text_ = "uroce-" + std::to_string(status.st_ino);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Descriptor reserved_;
  std::string text_;
};

/// Every time that the driver is started it connects once, to a socket that is there only meanwhile.
class MemifClient final : public MemifSocket {
 public:
  explicit MemifClient(Devargs& devargs) : peer_(address(devargs)), own_(name_.text(), true) {
    devargs.set("socket", name_.text());
    devargs.set("socket-abstract", "yes");
  }

  int start(const std::function<int()>& start_driver) override {
    relay_.cut();
    Descriptor peer(connect_to(peer_));
    if (!peer.ok()) return -errno;
    if (!same_user(peer.get())) return -EACCES;
    const Descriptor listener(listen_at(own_));
    if (!listener.ok()) return -errno;
    const int failed = start_driver();
    if (failed != 0) return failed;
    Descriptor driver(accept_ourselves(listener.get()));
    // Without the driver's end: it reads the end of its connection, and is started again later.
    if (driver.ok()) relay_.join(peer.release(), driver.release());
    return 0;
  }

 private:
  static UnixAddress address(const Devargs& devargs) {
    const MemifEnd place = *memif_end(devargs);
    return {place.socket, place.abstract};
  }

  /// Strangers can connect to an abstract name, too.
  static int accept_ourselves(int listener) {
    for (int descriptor = accept_one(listener); descriptor >= 0; descriptor = accept_one(listener)) {
      ucred peer{};
      socklen_t length = sizeof peer;
      getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length);
      if (peer.pid == getpid()) return descriptor;
      close(descriptor);
    }
    return -1;
  }

  const UnixAddress peer_;
  const OwnName name_;
  const UnixAddress own_;
};

/// A folder for the driver's socket that no other user may enter, in the folder of the user's socket; behind
/// an abstract name, in /tmp.
class OwnFolder {
 public:
  /// errno says why it has not been made.
  OwnFolder(const MemifEnd& place, const std::string& name) : name_("." + name) {
    std::filesystem::path parent = "/tmp";
    if (!place.abstract) parent = std::filesystem::path(place.socket).parent_path();
    parent_ = Descriptor(open(parent.empty() ? "." : parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ~OwnFolder() { remove(); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  /// 0 or errno.
  int make() {
    if (mkdirat(parent_.get(), name_.c_str(), S_IRWXU) != 0) return errno;
    made_ = true;
    Descriptor folder(openat(parent_.get(), name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.ok()) return errno;
    // Under the number that the driver knows.
    if (!folder_.ok()) {
      folder_ = std::move(folder);
    } else if (dup3(folder.get(), folder_.get(), O_CLOEXEC) < 0) {
      return errno;
    }
    return 0;
  }
  /// The socket has no name any more.
  void remove() {
    if (!std::exchange(made_, false)) return;
    unlink(socket().c_str());
    unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR);
  }
  /// A short path of the socket, whatever the folder is called; for as long as this lives.
  [[nodiscard]] std::string socket() const {
    return "/proc/self/fd/" + std::to_string(folder_.get()) + "/socket";
  }

 private:
  const std::string name_;
  Descriptor parent_;
  Descriptor folder_;
  bool made_ = false;
};

/// The driver listens in a folder of ours for a moment; then its socket has no name any more, and can be
/// reached by our descriptor only.
class MemifServer final : public MemifSocket {
 public:
  MemifServer(const MemifEnd& place, int listener) : folder_(place, name_.text()), listener_(listener) {}

  /// 0 or errno.
  int prepare() { return folder_.make(); }
  /// The path of the driver's socket.
  [[nodiscard]] std::string path() const { return folder_.socket(); }

  int make_device(const std::function<int()>& make_device) override {
    if (driver_.ok()) return make_device();  // it has its socket
    const int failed =
        make_with_lasting_source(make_device, [this](int number) { return is_drivers(number); });
    if (failed == 0) driver_ = Descriptor(open(path().c_str(), O_PATH | O_CLOEXEC));
    folder_.remove();
    return failed;
  }

  int start(const std::function<int()>& start_driver) override {
    if (watched_ == nullptr && !listener_.ok()) return -ESHUTDOWN;  // retired since this port began to open
    const int failed = start_driver();
    if (failed != 0 || watched_ != nullptr) return failed;
    watched_ = std::make_unique<WatchedSocket>(listener_.release(), [this] { let_in(); });
    return 0;
  }

  void retire() override {
    if (relay_.empty()) watched_.reset();
  }

  [[nodiscard]] bool may_close() const override { return !relay_.empty() || relay_.accepted(); }

  void closing() override {
    // The driver removes its socket, and complains if there is none.
    if (!relay_.empty() || folder_.make() != 0) return;
    close(open(path().c_str(), O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  }

 private:
  static std::string through(const Descriptor& descriptor) {
    return "/proc/self/fd/" + std::to_string(descriptor.get());
  }

  [[nodiscard]] bool is_drivers(int number) const {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    return getsockname(number, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
           address.sun_family == AF_UNIX && address.sun_path == path();
  }

  void let_in() {
    if (!relay_.accepted()) return;  // the driver's queue is short; one after the other
    Descriptor peer(accept_one(watched_->descriptor()));
    // net_memif trusts its peer with this process's memory.
    if (!peer.ok() || !same_user(peer.get())) return;
    Descriptor driver(connect_to(UnixAddress(through(driver_), false)));
    if (driver.ok()) relay_.join(peer.release(), driver.release());
  }

  const OwnName name_;
  OwnFolder folder_;
  Descriptor listener_;                     // until the first device is started
  std::unique_ptr<WatchedSocket> watched_;  // from then on
  Descriptor driver_;                       // the driver's socket, once it has no name
};

/// Servers of this process by socket.
struct MemifServerTable {
  std::mutex mutex;
  std::map<std::pair<bool, std::string>, std::weak_ptr<MemifServer>> servers;
};

MemifServerTable& memif_server_table() {
  static auto* table = new MemifServerTable;  // never destroyed: ports may be closed during exit
  return *table;
}

Result<std::shared_ptr<MemifServer>> find_or_make(const std::string& port, const MemifEnd& place) {
  MemifServerTable& table = memif_server_table();
  const std::lock_guard lock(table.mutex);
  auto& known = table.servers[{place.abstract, place.socket}];
  if (auto server = known.lock()) return server;
  const int listener = listen_at(UnixAddress(place.socket, place.abstract));
  if (listener < 0)
    return Error{errno, port + ": cannot use the socket " + place.socket + ": " + std::strerror(errno)};
  auto server = std::make_shared<MemifServer>(place, listener);
  if (const int failed = server->prepare(); failed != 0) {
    return Error{failed, port + ": cannot make a folder for the driver's socket beside " + place.socket +
                             ": " + std::strerror(failed)};
  }
  known = server;
  return server;
}

}  // namespace

Result<std::shared_ptr<MemifSocket>> MemifSocket::make(Devargs& devargs) {
  const MemifEnd place = *memif_end(devargs);
  if (!place.server) return std::shared_ptr<MemifSocket>(std::make_shared<MemifClient>(devargs));
  auto server = find_or_make(devargs.name(), place);
  if (!server) return server.error();
  devargs.set("socket", server.value()->path());
  devargs.set("socket-abstract", "no");
  return std::shared_ptr<MemifSocket>(std::move(*server));
}

}  // namespace uroce::drivers
