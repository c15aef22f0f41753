// Decision: one thread serves all clients and waits for none of them. A server library with a thread for each
// connection has few threads, and silent clients hold all of them. Cost: 150 lines, no gzip, and a connection
// for each scrape.
#include "apps/stat/scrape_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace uroce::statistics {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype([](addrinfo* list) { freeaddrinfo(list); })>;

constexpr std::string_view kEndOfRequest = "\r\n\r\n";

Addresses addresses_of(const std::string& where) {
  const size_t colon = where.rfind(':');
  std::string host = colon == std::string::npos ? "" : where.substr(0, colon);
  const std::string port = colon == std::string::npos ? where : where.substr(colon + 1);
  // getaddrinfo() takes any number, and none.
  uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) return nullptr;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &wanted, &list) != 0) return nullptr;
  return Addresses(list);
}

Descriptor listening_at(const addrinfo& address) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return Descriptor();
  return socket;
}

uint16_t port_of(int socket) {
  sockaddr_in6 address{};  // the port is at the same place in sockaddr_in
  socklen_t bytes = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin6_port);
}

bool would_block() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

Result<ScrapeServer> ScrapeServer::listen(const std::string& where, Text text) {
  const Addresses addresses = addresses_of(where);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    Descriptor socket = listening_at(*one);
    if (!socket.ok()) continue;
    const uint16_t port = port_of(socket.get());
    return ScrapeServer(std::move(socket), port, std::move(text));
  }
  return Error{EADDRNOTAVAIL, "in use, not an address of this host, or not allowed"};
}

void ScrapeServer::serve(int stop) {
  for (;;) {
    std::vector<pollfd> sources{{stop, POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    Clock::time_point wake = Clock::now() + std::chrono::hours(1);
    for (const Connection& one : connections_) {
      sources.push_back({one.socket.get(), static_cast<short>(one.head.empty() ? POLLIN : POLLOUT), 0});
      wake = std::min(wake, one.until);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - Clock::now());
    poll(sources.data(), sources.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (sources[0].revents != 0) return;
    const auto now = Clock::now();  // what comes while an answer is made is not late
    size_t index = 2;
    for (auto one = connections_.begin(); one != connections_.end(); ++index) {
      const bool stays = sources[index].revents == 0 || go_on(*one);
      one = stays && now < one->until ? std::next(one) : connections_.erase(one);
    }
    if (sources[1].revents != 0) accept_some();
  }
}

/// Few at once: what they ask is read before they could be too many.
void ScrapeServer::accept_some() {
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.ok()) return;
    if (connections_.size() == kConnectionsMax) make_room();
    connections_.push_back({.socket = std::move(socket), .until = Clock::now() + kRequestMax});
  }
}

/// One that asks does it at once; the oldest that has not is the least likely to.
void ScrapeServer::make_room() {
  const auto silent =
      std::ranges::find_if(connections_, [](const Connection& one) { return one.head.empty(); });
  connections_.erase(silent != connections_.end() ? silent : connections_.begin());
}

bool ScrapeServer::go_on(Connection& connection) {
  if (connection.head.empty()) {
    if (!read_some(connection)) return false;
    if (connection.request.find(kEndOfRequest) == std::string::npos) return true;
    answer(connection);
  }
  return send_some(connection);
}

bool ScrapeServer::read_some(Connection& connection) const {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
  if (count <= 0) return count < 0 && would_block();
  connection.request.append(bytes.data(), static_cast<size_t>(count));
  return connection.request.size() <= kRequestBytesMax;
}

void ScrapeServer::answer(Connection& connection) {
  const std::string_view line = std::string_view(connection.request).substr(0, connection.request.find('\r'));
  const auto asks_for = [&](std::string_view path) {
    return line.starts_with(path) && line.substr(path.size()).find_first_of(" ?") == 0;
  };
  const char* status = "200 OK";
  static const auto nothing = std::make_shared<const std::string>();
  connection.body = nothing;
  if (asks_for("GET /metrics")) {
    connection.body = current_text();
  } else {
    status = line.starts_with("GET ") ? "404 Not Found" : "405 Method Not Allowed";
  }
  connection.head = fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n",
      status, connection.body->size());
  connection.until = Clock::now() + kAnswerMax;
}

bool ScrapeServer::send_some(Connection& connection) {
  const std::string& head = connection.head;
  const std::string& body = *connection.body;
  while (connection.sent < head.size() + body.size()) {
    const size_t of_head = std::min(connection.sent, head.size());
    const size_t of_body = connection.sent - of_head;
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()) + of_head, head.size() - of_head},
                               iovec{const_cast<char*>(body.data()) + of_body, body.size() - of_body}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL);
    if (count < 0) return would_block();
    connection.sent += static_cast<size_t>(count);
  }
  return false;
}

/// The text to answer with. Those that ask too often get what others got: making it takes half of the time at
/// most.
std::shared_ptr<const std::string> ScrapeServer::current_text() {
  const Clock::time_point now = Clock::now();
  if (last_ != nullptr && now - last_at_ < last_took_) return last_;
  last_ = std::make_shared<const std::string>(text_());
  last_at_ = Clock::now();
  last_took_ = last_at_ - now;
  return last_;
}

}  // namespace uroce::statistics
