// Two processes and a memif between them.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "child.h"
#include "drivers/registry.h"
#include "eal.h"
#include "open_pair.h"
#include "temporary_folder.h"
#include "tests/support/packet.h"

namespace uroce::testing {
namespace {

/// Connects and is gone.
bool visit_socket(const std::string& path) {
  const sockaddr_un address = unix_address(path);
  const int visitor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int failed = connect(visitor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  close(visitor);
  return failed == 0;
}

class Memif : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(start_eal(), ""); }

  [[nodiscard]] std::string socket() const { return folder_.path() + "/memif.sock"; }
  [[nodiscard]] std::string devargs(const std::string& device, const std::string& role, int id = 0) const {
    return device + ",id=" + std::to_string(id) + ",socket-abstract=no,role=" + role + ",socket=" + socket();
  }

  /// Sends frames of many sizes to an echo, some in flight at a time, and expects all of them back.
  static void expect_echo(port::Port& port, uint32_t count) {
    port::PortQueue& queue = port.queue(0);
    const uint32_t longest = port.capabilities().frame_bytes_max;
    for (uint32_t first = 0; first < count; first += kInFlight) {
      for (uint32_t i = 0; i < kInFlight; ++i) {
        const uint32_t length = 60 + (first + i) * 97 % (longest - 59);
        while (send_frames(queue, first + i, 1, length) == 0) std::this_thread::yield();
      }
      const std::vector<int64_t> numbers = receive_frames(queue, kInFlight);
      ASSERT_EQ(numbers.size(), kInFlight);
      for (uint32_t i = 0; i < kInFlight; ++i) ASSERT_EQ(numbers[i], first + i);
    }
  }

  static void wait_until_away(const port::Port& port) {
    while (port.far_end() != port::FarEnd::kAway) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  static constexpr uint32_t kInFlight = 32;
  TemporaryFolder folder_;
};

TEST_F(Memif, FramesOfAllSizesTravelBetweenProcesses) {
  auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_TRUE(server.value()->link_up()) << "the end that starts first can run";
  EXPECT_EQ(server.value()->far_end(), port::FarEnd::kAway);
  Child client({"--echo", devargs("net_memif0", "client")});
  ASSERT_EQ(client.read_line(), "ready");
  ASSERT_TRUE(wait_for_link(**server));
  expect_echo(**server, 2048);
  EXPECT_EQ(client.finish(), 0);
  wait_until_away(**server);
}

TEST_F(Memif, APeerThatDiedIsNoticedAndItsSuccessorWelcomed) {
  auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_TRUE(server) << server.error().message;
  const size_t buffers = [&] {
    const auto all = allocate_all((*server)->queue(0));
    (*server)->queue(0).free(all);
    return all.size();
  }();
  for (int life = 0; life < 3; ++life) {
    Child client({"--echo", devargs("net_memif0", "client")});
    ASSERT_EQ(client.read_line(), "ready");
    ASSERT_TRUE(wait_for_link(**server)) << "life " << life;
    expect_echo(**server, 256);
    client.kill();
    wait_until_away(**server);
    EXPECT_TRUE(server.value()->link_up()) << "a link without a peer stays up";
    // It loses what is sent, and gives the buffers back.
    EXPECT_EQ(send_frames((*server)->queue(0), 0, 5000, 100), 5000u);
  }
  const auto all = allocate_all((*server)->queue(0));
  EXPECT_EQ(all.size(), buffers);
  (*server)->queue(0).free(all);
}

TEST_F(Memif, AClientWaitsForItsServerAndForItsSuccessor) {
  auto client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_TRUE(client.value()->link_up()) << "our end stands";
  EXPECT_EQ(client.value()->far_end(), port::FarEnd::kAway);
  EXPECT_EQ(send_frames((*client)->queue(0), 0, 5000, 100), 5000u) << "lost, as on a wire without a peer";
  for (int life = 0; life < 3; ++life) {
    Child server({"--echo", devargs("net_memif0", "server")});
    ASSERT_EQ(server.read_line(), "ready");
    ASSERT_TRUE(wait_for_link(**client)) << "life " << life;
    expect_echo(**client, 256);
    server.kill();
    wait_until_away(**client);
  }
}

TEST_F(Memif, ServersOfOneProcessMayShareASocketAndLoseTheirPeersOneByOne) {
  std::array servers = {drivers::open_port({.devargs = devargs("net_memif0", "server", 0)}),
                        drivers::open_port({.devargs = devargs("net_memif1", "server", 1)})};
  ASSERT_TRUE(servers[0]) << servers[0].error().message;
  ASSERT_TRUE(servers[1]) << servers[1].error().message;
  Child first({"--echo", devargs("net_memif0", "client", 0)});
  Child second({"--echo", devargs("net_memif0", "client", 1)});
  for (const auto& server : servers) {
    ASSERT_TRUE(wait_for_link(**server));
    expect_echo(**server, 64);
  }
  first.kill();
  wait_until_away(**servers[0]);
  expect_echo(**servers[1], 64);
  servers[0]->reset();
  expect_echo(**servers[1], 64);
  second.kill();
  wait_until_away(**servers[1]);
  Child third({"--echo", devargs("net_memif0", "client", 1)});
  ASSERT_TRUE(wait_for_link(**servers[1]));
  expect_echo(**servers[1], 64);
}

TEST_F(Memif, AVisitorThatLeavesBeforeItIsGreetedIsSurvived) {
  auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_TRUE(server) << server.error().message;
  for (int visit = 0; visit < 200; ++visit) ASSERT_TRUE(visit_socket(socket())) << "visit " << visit;
  Child client({"--echo", devargs("net_memif0", "client")});
  ASSERT_TRUE(wait_for_link(**server));
  expect_echo(**server, 64);
}

TEST_F(Memif, AChildProcessWithCopiesOfAllDescriptorsKeepsNoProcessOut) {
  auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_TRUE(server) << server.error().message;
  Child first({"--echo", devargs("net_memif0", "client")});
  ASSERT_TRUE(wait_for_link(**server));
  const pid_t holder = fork();
  if (holder == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  first.kill();
  wait_until_away(**server);
  for (int visit = 0; visit < 10; ++visit) EXPECT_TRUE(visit_socket(socket()));
  Child second({"--echo", devargs("net_memif0", "client")});
  EXPECT_TRUE(wait_for_link(**server));
  expect_echo(**server, 64);
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
}

TEST_F(Memif, AClosedServerLeavesNothingInItsFolder) {
  {
    const auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
    ASSERT_TRUE(server) << server.error().message;
    const std::filesystem::directory_iterator files(folder_.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "only the socket that the user named";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Memif, WhoEndsGivesAPeerThatIsNotRunTimeToTakeTheLastFrame) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_TRUE(server) << server.error().message;
  constexpr milliseconds kAway{300};
  constexpr milliseconds kAwayMax{450};  // away for longer than meant, this process proves nothing
  bool in_time = false;
  for (int attempt = 0; attempt < 20 && !in_time; ++attempt) {
    Child client({"--say", devargs("net_memif0", "client")});
    ASSERT_EQ(client.read_line(), "ready");
    const auto before = steady_clock::now();
    ASSERT_EQ(client.read_line(), "sent");
    std::this_thread::sleep_for(kAway);
    in_time = steady_clock::now() - before < kAwayMax;
    const std::vector<int64_t> numbers = receive_frames((*server)->queue(0), 1);
    if (in_time) {
      EXPECT_EQ(numbers, std::vector<int64_t>{0});
    }
    EXPECT_EQ(client.finish(), 0);
    wait_until_away(**server);
  }
  EXPECT_TRUE(in_time) << "this machine is too busy to tell";
}

TEST_F(Memif, WhoEndsBehindItsPeerDoesNotWaitForPollersThatHaveEnded) {
  using Clock = std::chrono::steady_clock;
  std::array<Clock::duration, 5> took{};
  for (Clock::duration& one : took) {
    auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
    ASSERT_TRUE(server) << server.error().message;
    Child client({"--echo", devargs("net_memif0", "client")});
    ASSERT_EQ(client.read_line(), "ready");
    ASSERT_TRUE(wait_for_link(**server));
    ASSERT_NO_FATAL_FAILURE(expect_echo(**server, kInFlight));
    client.kill();
    const Clock::time_point start = Clock::now();
    server.value().reset();
    one = Clock::now() - start;
  }
  // Pollers that may come yet are given 100 ms to take what the peer has left.
  std::ranges::sort(took);
  EXPECT_LT(took[took.size() / 2], std::chrono::milliseconds(80));
}

TEST_F(Memif, ASecondServerIsRefusedAndADeadOnesSocketIsNot) {
  Child other({"--echo", devargs("net_memif0", "server")});
  ASSERT_EQ(other.read_line(), "ready");
  const auto refused = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_NE(refused.error().message.find(socket()), std::string::npos) << refused.error().message;

  other.kill();
  ASSERT_TRUE(std::filesystem::exists(socket())) << "a dead server leaves its socket";
  {
    const auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
    ASSERT_TRUE(server) << server.error().message;
  }
  EXPECT_FALSE(std::filesystem::exists(socket())) << "a closed one leaves nothing";
}

TEST_F(Memif, ARefusedServerLeavesTheOtherAlone) {
  Child other({"--echo", devargs("net_memif0", "server")});
  ASSERT_EQ(other.read_line(), "ready");
  other.pause();
  ASSERT_FALSE(drivers::open_port({.devargs = devargs("net_memif0", "server")}));
  other.resume();
  auto client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE(wait_for_link(**client));
  expect_echo(**client, 64);
  client->reset();
  EXPECT_EQ(other.finish(), 0);
}

/// A server of DPDK dies when a client disconnects before the server has handled it.
TEST_F(Memif, AForeignServerIsNotVisited) {
  const sockaddr_un address = unix_address(socket());
  const int server = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ASSERT_EQ(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(server, 1), 0);
  const auto refused = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "net_memif0: another process listens on " + socket());
  EXPECT_EQ(accept(server, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(server);
}

TEST_F(Memif, ASecondClientIsRefusedUntilTheFirstHasGone) {
  Child first({"--echo", devargs("net_memif1", "client")});
  ASSERT_EQ(first.read_line(), "ready");
  // By whatever path, also before there is a server.
  std::filesystem::create_directory_symlink(folder_.path(), folder_.path() + "/link");
  const std::string again =
      "net_memif2,role=slave,socket-abstract=no,socket=" + folder_.path() + "/link/memif.sock";
  const auto refused = drivers::open_port({.devargs = again});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_EQ(refused.error().message, "net_memif2: another process uses id 0 as client of socket " +
                                         folder_.path() + "/link/memif.sock");
  EXPECT_TRUE(drivers::open_port({.devargs = again + ",id=1"})) << "another link";
  first.kill();
  const auto client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_FALSE(drivers::open_port({.devargs = devargs("net_memif2", "client")})) << "of one process, too";
}

TEST_F(Memif, AForkedChildDoesNotKeepTheEnd) {
  auto client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  ASSERT_TRUE(client) << client.error().message;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  ASSERT_GT(child, 0);
  client->reset();
  client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  EXPECT_TRUE(client) << client.error().message;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

/// The kernel keeps a socket while it is polled, closed or not, and there are threads that poll whatever has
/// got the number of what they closed.
TEST_F(Memif, AnEndThatWasClosedWhilePolledOpensAgain) {
  auto client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  ASSERT_TRUE(client) << client.error().message;
  std::vector<pollfd> all;
  for (int number = 3; number < 1000; ++number) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    const bool is_socket = getsockname(number, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    if (is_socket && address.sun_family == AF_UNIX &&
        std::string_view(address.sun_path + 1).starts_with("uroce "))
      all.push_back({.fd = number, .events = POLLIN, .revents = 0});
  }
  ASSERT_FALSE(all.empty());
  std::thread poller([&] { poll(all.data(), all.size(), 500); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  client->reset();
  client = drivers::open_port({.devargs = devargs("net_memif1", "client")});
  EXPECT_TRUE(client) << client.error().message;
  poller.join();
}

TEST_F(Memif, WhatIsNotASocketIsLeftAlone) {
  std::ofstream(socket()) << "precious";
  const auto server = drivers::open_port({.devargs = devargs("net_memif0", "server")});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, EEXIST);
  EXPECT_EQ(std::filesystem::file_size(socket()), 8u);
}

TEST_F(Memif, AFolderThatIsNotThereIsNamed) {
  const auto server = drivers::open_port(
      {.devargs = "net_memif0,role=server,socket-abstract=no,socket=" + folder_.path() + "/no/x"});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ENOENT);
  EXPECT_NE(server.error().message.find("/no/x"), std::string::npos) << server.error().message;
}

}  // namespace
}  // namespace uroce::testing
