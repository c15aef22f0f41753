// An abstract socket named after an interface's address or a memif's end is the lock on it: it belongs to the
// network namespace and ends with the process. Cost: processes in two namespaces that share a memif's file
// do not exclude each other.
#include "drivers/port/kernel/exclusive_name.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

// A name is an abstract address of a socket that nothing is ever sent to: the kernel gives it to one socket
// of a network namespace at a time, and takes it back when the last descriptor of that socket is closed.
namespace uroce::drivers {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
  bool operator==(const Address& other) const {
    return length == other.length && std::memcmp(&value, &other.value, length) == 0;
  }
};

/// FNV-1a: names that are cut off stay different.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

/// The name as `ss -x` shows it: the owner, a hash of the whole name, and as much of the name as fits.
Address address_of(const std::string& name) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), hash_of(name), 16).ptr;
  const std::string text = "uroce " + std::string(digits.data(), end) + " " + name;
  Address address;
  address.value.sun_family = AF_UNIX;
  const size_t length = std::min(text.size(), sizeof address.value.sun_path - 1);
  std::memcpy(address.value.sun_path + 1, text.data(), length);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

/// The program may have closed it, and given its number to something else.
void close_if_ours(int descriptor, const Address& address) {
  Address now;
  now.length = sizeof now.value;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&now.value), &now.length) == 0 && now == address)
    close(descriptor);
}

struct Held {
  int descriptor = -1;
  Address address;
};

/// What this process holds or has held, by name; the descriptor is negative when it is given up. The lock is
/// taken while the process forks: see let_go_in_children().
struct HeldNames {
  std::mutex mutex;
  std::map<std::string, Held> names;
};

HeldNames& held_names() {
  static auto* held = new HeldNames;  // never destroyed: ports may be closed during exit
  return *held;
}

/// A child shares the sockets, and would keep the names when the process has died.
void let_go_in_children() {
  static const int registered =
      pthread_atfork([] { held_names().mutex.lock(); }, [] { held_names().mutex.unlock(); },
                     [] {
                       HeldNames& held = held_names();
                       // Memory is not given back here, since allocators are not at home in a forked child.
                       for (auto& [name, socket] : held.names)
                         close_if_ours(std::exchange(socket.descriptor, -1), socket.address);
                       held.mutex.unlock();
                     });
  (void)registered;
}

Error in_use(const char* by) { return {EBUSY, std::string(by) + " uses"}; }

Error unknown(int code) {
  return {code, std::string("cannot find out (") + std::strerror(code) + ") whether another process uses"};
}

/// EADDRINUSE when it is another's; 0 when it is ours now.
int bind_socket(const std::string& name, Held& held) {
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return errno;
  const Address address = address_of(name);
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0) {
    const int code = errno;
    close(descriptor);
    return code;
  }
  held = {descriptor, address};
  return 0;
}

}  // namespace

Result<ExclusiveName> ExclusiveName::take(const std::string& name) {
  // A thread that polls a number which it closed, as DPDK's for vhost does for a second at a time, keeps what
  // has got that number meanwhile for as long.
  constexpr int kTriesAgainMax = 100;
  constexpr auto kBetween = std::chrono::milliseconds(20);
  let_go_in_children();
  HeldNames& held = held_names();
  for (int tries = 0;; ++tries) {
    {
      const std::lock_guard guard(held.mutex);
      const auto [entry, first_time] = held.names.try_emplace(name);
      if (entry->second.descriptor >= 0) return in_use("another device of this process");
      const int failed = bind_socket(name, entry->second);
      if (failed == 0) return ExclusiveName(name);
      if (first_time) held.names.erase(entry);
      if (failed != EADDRINUSE) return unknown(failed);
      if (first_time || tries == kTriesAgainMax) return in_use("another process");
    }
    std::this_thread::sleep_for(kBetween);
  }
}

ExclusiveName::ExclusiveName(ExclusiveName&& other) noexcept : name_(std::exchange(other.name_, {})) {}

ExclusiveName& ExclusiveName::operator=(ExclusiveName&& other) noexcept {
  std::swap(name_, other.name_);
  return *this;
}

ExclusiveName::~ExclusiveName() {
  if (name_.empty()) return;
  HeldNames& held = held_names();
  const std::lock_guard guard(held.mutex);
  Held& socket = held.names.at(name_);
  close_if_ours(std::exchange(socket.descriptor, -1), socket.address);
}

}  // namespace uroce::drivers
