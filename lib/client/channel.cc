#include "client/channel.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "base/values/printable.h"
#include "client/failure.h"

namespace uroce::client {
namespace {

// A line is a plan at most; a peer that sends more speaks another protocol.
constexpr size_t kLineBytesMax = 1 << 16;
// An object, its members and a list in one of them. The stacks of the parser and of what walks
// through its result grow with each.
constexpr int kNestingMax = 8;
// Of what a peer says is wrong.
constexpr size_t kShownMax = 200;

using Clock = std::chrono::steady_clock;

/// False when it is too late.
bool wait_for(int socket, short events, Clock::time_point until = Clock::time_point::max()) {
  constexpr int kLookAroundMs = 100;
  for (;;) {
    throw_if_interrupted();
    pollfd one{.fd = socket, .events = events, .revents = 0};
    const int ready = poll(&one, 1, kLookAroundMs);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw failed("poll", errno);
    if (Clock::now() > until) return false;
  }
}

/// Brackets in strings are counted, too: we send none.
bool nests_deeply(std::string_view line) {
  int depth = 0;
  for (const char c : line) {
    if ((c == '[' || c == '{') && ++depth > kNestingMax) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort split(const std::string& where) {
  const std::string any = std::to_string(Listener::kDefaultPort);
  if (where.starts_with('[')) {
    const size_t close = where.find(']');
    if (close == std::string::npos) throw Failure("--connect " + where + ": ']' is missing");
    const bool has_port = close + 2 < where.size() && where[close + 1] == ':';
    return {where.substr(1, close - 1), has_port ? where.substr(close + 2) : any};
  }
  const size_t colon = where.find(':');
  // More than one colon is an IPv6 address without a port.
  if (colon == std::string::npos || where.find(':', colon + 1) != std::string::npos) return {where, any};
  return {where.substr(0, colon), where.substr(colon + 1)};
}

int enable(int socket, int level, int name) {
  const int on = 1;
  return setsockopt(socket, level, name, &on, sizeof(on));
}

}  // namespace

Channel Channel::connect(const std::string& where) {
  const HostAndPort to = split(where);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(to.host.c_str(), to.port.c_str(), &hints, &found)) {
    throw Failure(fmt::format("--connect {}: {}", where, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd < 0) {
      last_error = errno;
      continue;
    }
    Channel channel(fd, where);
    if (::connect(fd, one->ai_addr, one->ai_addrlen) == 0) {
      enable(fd, IPPROTO_TCP, TCP_NODELAY);
      return channel;
    }
    last_error = errno;
    throw_if_interrupted();
  }
  throw failed("cannot connect to " + where, last_error);
}

Channel::Channel(Channel&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      peer_(std::move(other.peer_)),
      received_(std::move(other.received_)) {}

Channel::~Channel() {
  if (socket_ >= 0) close(socket_);
}

void Channel::send(const nlohmann::json& message) {
  const std::string line = message.dump() + "\n";
  for (size_t sent = 0; sent < line.size();) {
    wait_for(socket_, POLLOUT);
    const ssize_t count = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw failed("connection to " + peer_, errno);
    sent += static_cast<size_t>(count);
  }
}

bool Channel::read_some() {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count == 0) throw Failure(peer_ + " closed the connection");
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count < 0) throw failed("connection to " + peer_, errno);
  received_.append(bytes.data(), static_cast<size_t>(count));
  if (received_.size() > kLineBytesMax) throw Failure(peer_ + " does not speak the protocol of this program");
  return true;
}

std::optional<nlohmann::json> Channel::take_line() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  if (nests_deeply(line)) throw Failure(peer_ + " does not speak the protocol of this program");
  nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
  if (!message.is_object()) throw Failure(peer_ + " does not speak the protocol of this program");
  if (message.contains("error")) {
    const nlohmann::json& text = message["error"];
    throw Failure(fmt::format(
        "{}: {}", peer_, printable(text.is_string() ? text.get<std::string>() : text.dump(), kShownMax)));
  }
  return message;
}

nlohmann::json Channel::receive(std::optional<std::chrono::seconds> patience) {
  const auto until = patience ? Clock::now() + *patience : Clock::time_point::max();
  for (;;) {
    if (auto message = take_line()) return *std::move(message);
    if (!wait_for(socket_, POLLIN, until)) throw Failure(peer_ + " says nothing any more");
    read_some();
  }
}

std::optional<nlohmann::json> Channel::receive_if_any() {
  read_some();
  return take_line();
}

Listener::Listener(uint16_t port)
    : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), port_(port) {
  constexpr int kBacklog = 16;
  // A machine without IPv6 still has IPv4.
  const bool v6 = socket_ >= 0;
  if (!v6) socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) throw failed("socket", errno);
  enable(socket_, SOL_SOCKET, SO_REUSEADDR);
  sockaddr_in6 address6{};
  address6.sin6_family = AF_INET6;
  address6.sin6_port = htons(port);
  sockaddr_in address4{};
  address4.sin_family = AF_INET;
  address4.sin_port = htons(port);
  auto* address = v6 ? reinterpret_cast<sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address4);
  socklen_t length = v6 ? sizeof(address6) : sizeof(address4);
  if (bind(socket_, address, length) != 0 || listen(socket_, kBacklog) != 0) {
    const int error = errno;
    close(socket_);
    throw failed(fmt::format("--listen {}", port), error);
  }
  if (getsockname(socket_, address, &length) == 0) {
    port_ = ntohs(v6 ? address6.sin6_port : address4.sin_port);
  }
}

Listener::~Listener() { close(socket_); }

std::optional<Channel> Listener::accept() {
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  const int fd = accept4(socket_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, NI_MAXHOST> host{};
  getnameinfo(reinterpret_cast<sockaddr*>(&from), length, host.data(), host.size(), nullptr, 0,
              NI_NUMERICHOST);
  enable(fd, IPPROTO_TCP, TCP_NODELAY);
  std::string peer = host.data();
  // An IPv4 client at a socket of both families.
  if (peer.starts_with("::ffff:")) peer.erase(0, 7);
  return Channel(fd, peer);
}

}  // namespace uroce::client
