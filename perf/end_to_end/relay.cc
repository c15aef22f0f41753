// A wire between two interfaces that loses some of the frames and delays the others: what one interface
// receives leaves at the other. Both belong to the relay alone. It ends with the process that started it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/values/random.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFrameBytesMax = 9216;
constexpr size_t kBurst = 64;
constexpr size_t kWaitingMax = 65536;
constexpr int kSocketBytes = 64 << 20;

struct Options {
  std::vector<std::string> interfaces;
  uint64_t loss = 0;  // of 100,000 frames
  uint32_t delay_us = 0;
  uint64_t seed = 1;
  std::string plain;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Frames as they are on a wire: no checksum is left to hardware, and none is longer than the MTU.
void switch_offloads_off(const std::string& interface) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  for (const uint32_t command : {ETHTOOL_SGRO, ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_STXCSUM}) {
    ethtool_value off{.cmd = command, .data = 0};
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&off);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0 && errno != EOPNOTSUPP) fail(interface + ": ethtool");
  }
  close(fd);
}

/// One interface.
class End {
 public:
  explicit End(const std::string& interface)
      : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (fd_ < 0) fail("packet socket");
    const int on = 1;
    setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    setsockopt(fd_, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
    setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
    const sockaddr_ll address{.sll_family = AF_PACKET,
                              .sll_protocol = htons(ETH_P_ALL),
                              .sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()))};
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail(interface);
    for (size_t i = 0; i < kBurst; ++i) {
      pieces_[i] = {.iov_base = buffers_[i].data(), .iov_len = kFrameBytesMax};
      received_[i].msg_hdr.msg_iov = &pieces_[i];
      received_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  End(const End&) = delete;
  ~End() { close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }
  /// Calls `take` with the bytes of each frame that has come.
  template <typename Take>
  size_t receive(const Take& take) {
    const int count = recvmmsg(fd_, received_.data(), kBurst, 0, nullptr);
    for (int i = 0; i < count; ++i)
      take(buffers_[static_cast<size_t>(i)].data(), received_[static_cast<size_t>(i)].msg_len);
    return count > 0 ? static_cast<size_t>(count) : 0;
  }
  /// A frame that the interface does not take is lost.
  void send(const std::vector<std::byte>& frame) const {
    if (::send(fd_, frame.data(), frame.size(), 0) < 0 && errno == ENETDOWN) fail("an interface is down");
  }

 private:
  int fd_;
  std::array<std::array<std::byte, kFrameBytesMax>, kBurst> buffers_;
  std::array<iovec, kBurst> pieces_{};
  std::array<mmsghdr, kBurst> received_{};
};

/// What is on its way to one end.
class Direction {
 public:
  Direction(End& from, const End& to, const Options& options, uint64_t seed)
      : from_(from), to_(to), options_(options), random_(seed) {}

  bool turn() {
    const Clock::time_point now = Clock::now();
    const Clock::time_point due = now + std::chrono::microseconds(options_.delay_us);
    const size_t came = from_.receive([&](const std::byte* bytes, size_t length) {
      constexpr uint64_t kPer = 100'000;
      if (random_.chance(options_.loss, kPer) || waiting_.size() == kWaitingMax) return;
      waiting_.push_back({due, {bytes, bytes + length}});
    });
    size_t left = 0;
    for (; !waiting_.empty() && waiting_.front().due <= now && left < kBurst; ++left) {
      to_.send(waiting_.front().bytes);
      waiting_.pop_front();
    }
    return came + left > 0 || !waiting_.empty();
  }

 private:
  struct Waiting {
    Clock::time_point due;
    std::vector<std::byte> bytes;
  };
  End& from_;
  const End& to_;
  const Options& options_;
  uroce::Random random_;
  std::deque<Waiting> waiting_;
};

void relay(const Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  End left(options.interfaces.at(0));
  End right(options.interfaces.at(1));
  Direction there(left, right, options, options.seed);
  Direction back(right, left, options, ~options.seed);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (;;) {
    const bool busy = there.turn();
    if (back.turn() || busy) continue;
    std::array<pollfd, 2> ends = {{{left.fd(), POLLIN, 0}, {right.fd(), POLLIN, 0}}};
    poll(ends.data(), ends.size(), -1);
  }
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app("A wire between two interfaces that loses and delays frames.");
  app.add_option("interfaces", options.interfaces, "the two of them")->expected(0, 2);
  app.add_option("--loss", options.loss, "of 100,000 frames in each direction")
      ->check(CLI::Range(0, 100'000));
  app.add_option("--delay-us", options.delay_us, "of each frame")->check(CLI::Range(0, 1'000'000));
  app.add_option("--seed", options.seed, "of what is lost");
  app.add_option("--plain", options.plain, "only switches the offloads of this interface off");
  CLI11_PARSE(app, count, arguments);
  try {
    if (!options.plain.empty()) {
      switch_offloads_off(options.plain);
    } else if (options.interfaces.size() != 2) {
      throw std::runtime_error("two interfaces are needed");
    } else {
      relay(options);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "relay: {}\n", error.what());
    return 1;
  }
  return 0;
}
