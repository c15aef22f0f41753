// What datagrams of the kernel's sockets do between two processes that both spin: round trips and rate, which
// RoCEv2 over the same kind of link stands beside.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kBytesMax = 65'507;
constexpr Seconds kPatience{0.1};

/// The first byte of a datagram.
enum Kind : char {
  kEcho = 'e',   // comes back
  kCount = 'c',  // is counted
  kTotal = 't',  // comes back with the number of those that were
  kEnd = 'q',    // comes back, and the server ends
};

class Socket {
 public:
  Socket() : number_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    check(number_, "socket");
  }
  ~Socket() { close(number_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  static ssize_t check(ssize_t result, const char* what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
    return result;
  }
  operator int() const { return number_; }

 private:
  int number_;
};

sockaddr_in address_of(const std::string& text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
    throw std::invalid_argument(text + ": no IPv4 address");
  return address;
}

void serve(const sockaddr_in& at) {
  const Socket socket;
  Socket::check(bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), "bind");
  fmt::print("listening\n");
  std::fflush(stdout);
  std::vector<char> datagram(kBytesMax);
  uint64_t counted = 0;
  while (true) {
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t bytes =
        recvfrom(socket, datagram.data(), datagram.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes <= 0) continue;
    const char kind = datagram[0];
    if (kind == kCount) {
      ++counted;
      continue;
    }
    if (kind == kTotal && bytes >= static_cast<ssize_t>(1 + sizeof(counted))) {
      std::memcpy(&datagram[1], &counted, sizeof(counted));
      counted = 0;
    }
    sendto(socket, datagram.data(), static_cast<size_t>(bytes), 0, reinterpret_cast<const sockaddr*>(&from),
           length);
    if (kind == kEnd) return;
  }
}

class Client {
 public:
  Client(const sockaddr_in& to, size_t bytes) : datagram_(std::max(bytes, 1 + sizeof(uint64_t))) {
    Socket::check(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), "connect");
  }

  /// Sends it until its like comes back.
  void ask(Kind kind) {
    datagram_[0] = kind;
    while (true) {
      send(socket_, datagram_.data(), datagram_.size(), 0);
      for (const auto start = Clock::now(); Clock::now() - start < kPatience;) {
        if (recv(socket_, datagram_.data(), datagram_.size(), 0) > 0 && datagram_[0] == kind) return;
      }
    }
  }

  double round_trip_p50_us(Seconds time) {
    std::vector<double> trips;
    for (const auto end = Clock::now() + time; Clock::now() < end;) {
      const auto start = Clock::now();
      ask(kEcho);
      trips.push_back(Seconds(Clock::now() - start).count() * 1e6);
    }
    std::ranges::nth_element(trips, trips.begin() + static_cast<ptrdiff_t>(trips.size() / 2));
    return trips[trips.size() / 2];
  }

  /// Datagrams that arrive in a second.
  double datagrams_per_second(Seconds time) {
    ask(kTotal);
    datagram_[0] = kCount;
    const auto start = Clock::now();
    while (Clock::now() - start < time) send(socket_, datagram_.data(), datagram_.size(), 0);
    const Seconds passed = Clock::now() - start;
    ask(kTotal);
    uint64_t counted = 0;
    std::memcpy(&counted, &datagram_[1], sizeof(counted));
    return static_cast<double>(counted) / passed.count();
  }

 private:
  const Socket socket_;
  std::vector<char> datagram_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Datagrams of UDP between two processes that spin: round trip and rate, as JSON");
  std::string address;
  uint16_t port = 7470;
  bool server = false;
  size_t bytes = 64;
  double seconds = 1;
  app.add_option("address", address, "the server's")->required();
  app.add_option("--port", port);
  app.add_flag("--server", server);
  app.add_option("--bytes", bytes)->check(CLI::Range(size_t{1}, kBytesMax));
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    if (server) {
      serve(address_of(address, port));
      return 0;
    }
    Client client(address_of(address, port), bytes);
    const double trip = client.round_trip_p50_us(Seconds(seconds));
    const double rate = client.datagrams_per_second(Seconds(seconds));
    client.ask(kEnd);
    fmt::print("{{\"round_trip_p50_us\": {:.3f}, \"datagrams_per_second\": {:.0f}}}\n", trip, rate);
  } catch (const std::exception& error) {
    fmt::print(stderr, "udp_echo: {}\n", error.what());
    return 1;
  }
}
