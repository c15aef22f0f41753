#include "drivers/port/ethdev/memif_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "drivers/port/ethdev/memif_end.h"
#include "drivers/port/ethdev/unix_socket.h"

namespace uroce::drivers {
namespace {

/// A descriptor that is closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  void reset(int number = -1) {
    if (number_ >= 0) close(number_);
    number_ = number;
  }

 private:
  int number_;
};

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
    if (peer.get() < 0) return -errno;
    const Descriptor listener(listen_at(own_));
    if (listener.get() < 0) return -errno;
    const int failed = start_driver();
    if (failed != 0) return failed;
    Descriptor driver(accept_ourselves(listener.get()));
    // Without the driver's end: it reads the end of its connection, and is started again later.
    if (driver.get() >= 0) relay_.join(peer.release(), driver.release());
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
      ucred who{};
      socklen_t length = sizeof who;
      getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &length);
      if (who.pid == getpid()) return descriptor;
      close(descriptor);
    }
    return -1;
  }

  const UnixAddress peer_;
  const OwnName name_;
  const UnixAddress own_;
};

/// The driver listens in the folder of the user's socket for a moment; then its socket has no name any more,
/// and can be reached by our descriptor only. Behind an abstract name it has one of these.
class MemifServer final : public MemifSocket {
 public:
  MemifServer(const MemifEnd& place, int listener)
      : abstract_(place.abstract), listener_(listener), folder_(-1), driver_(-1) {
    if (abstract_) {
      path_ = name_.text();
      return;
    }
    const std::filesystem::path folder = std::filesystem::path(place.socket).parent_path();
    folder_.reset(open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    path_ = through(folder_) + "/." + name_.text();  // the folder's own name may be too long for an address
  }

  ~MemifServer() override {
    if (!abstract_) unlink(path_.c_str());  // a driver that failed half-way leaves it
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool abstract() const { return abstract_; }

  void device_made() override {
    if (abstract_ || driver_.get() >= 0) return;
    driver_.reset(open(path_.c_str(), O_PATH | O_CLOEXEC));
    unlink(path_.c_str());
  }

  int start(const std::function<int()>& start_driver) override {
    if (watched_ == nullptr && listener_.get() < 0)
      return -ESHUTDOWN;  // retired since this port began to open
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
    if (relay_.empty() && !abstract_) close(open(path_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  }

 private:
  static std::string through(const Descriptor& descriptor) {
    return "/proc/self/fd/" + std::to_string(descriptor.get());
  }

  void let_in() {
    if (!relay_.accepted()) return;  // the driver's queue is short; one after the other
    Descriptor peer(accept_one(watched_->descriptor()));
    if (peer.get() < 0) return;
    Descriptor driver(
        connect_to(abstract_ ? UnixAddress(path_, true) : UnixAddress(through(driver_), false)));
    if (driver.get() >= 0) relay_.join(peer.release(), driver.release());
  }

  const OwnName name_;
  const bool abstract_;
  Descriptor listener_;                     // until the first device is started
  std::unique_ptr<WatchedSocket> watched_;  // from then on
  Descriptor folder_;                       // of the user's socket
  Descriptor driver_;                       // the driver's socket, once it has no name
  std::string path_;
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
  devargs.set("socket-abstract", server.value()->abstract() ? "yes" : "no");
  return std::shared_ptr<MemifSocket>(std::move(*server));
}

}  // namespace uroce::drivers
