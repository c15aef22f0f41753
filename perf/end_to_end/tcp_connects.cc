// How fast connections of the kernel's TCP come and go on the loopback interface, one after the other: what
// connections of rdma_cm stand beside.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace {

int check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

sockaddr_in loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Takes connections and ends them.
void serve(int listener) {
  for (int peer = accept(listener, nullptr, nullptr); peer >= 0; peer = accept(listener, nullptr, nullptr))
    close(peer);
}

/// One connection that comes and goes.
void connect_once(const sockaddr_in& to) {
  const int end = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  check(connect(end, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), "connect");
  char nothing = 0;
  check(static_cast<int>(read(end, &nothing, 1)), "read");
  close(end);
}

double connects_per_second(double seconds) {
  const int listener = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address = loopback();
  socklen_t length = sizeof(address);
  check(bind(listener, reinterpret_cast<const sockaddr*>(&address), length), "bind");
  check(listen(listener, SOMAXCONN), "listen");
  check(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  std::thread server(serve, listener);
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> time{};
  uint64_t done = 0;
  for (; time.count() < seconds; ++done) {
    connect_once(address);
    time = std::chrono::steady_clock::now() - start;
  }
  shutdown(listener, SHUT_RDWR);
  server.join();
  close(listener);
  return static_cast<double>(done) / time.count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Opens and ends connections of TCP, and says how fast as JSON");
  double seconds = 1;
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{{\"connects_per_second\": {:.1f}}}\n", connects_per_second(seconds));
  } catch (const std::exception& error) {
    fmt::print(stderr, "tcp_connects: {}\n", error.what());
    return 1;
  }
}
