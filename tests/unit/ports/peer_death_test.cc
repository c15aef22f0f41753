// The other process of a memif dies while frames flow both ways, again and again. The driver at our end would
// unmap the rings on EAL's interrupt thread, under a poller that is busy with them.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "child.h"
#include "drivers/registry.h"
#include "eal.h"
#include "flood.h"
#include "open_pair.h"
#include "temporary_folder.h"

namespace uroce::testing {
namespace {

constexpr std::array kDeaths = {SIGKILL, SIGTERM, SIGINT};

struct Role {
  const char* ours;
  const char* peers;
};

class PeerDeath : public ::testing::TestWithParam<Role> {
 protected:
  static constexpr int kLives = 20;

  void SetUp() override { ASSERT_EQ(start_eal(), ""); }

  [[nodiscard]] std::string devargs(const char* device, const char* role) const {
    return std::string(device) + ",id=0,socket-abstract=no,role=" + role + ",socket=" + folder_.path() +
           "/memif.sock";
  }

  TemporaryFolder folder_;
};

TEST_P(PeerDeath, UnderAFloodIsSurvived) {
  auto port = drivers::open_port({.devargs = devargs("net_memif0", GetParam().ours)});
  ASSERT_TRUE(port) << port.error().message;
  std::atomic<bool> ended{false};
  std::atomic<uint64_t> received{0};
  std::thread poller([&] {
    while (!ended) received += flood_once((*port)->queue(0));
  });
  for (int life = 0; life < kLives; ++life) {
    Child peer({"--flood", devargs("net_memif1", GetParam().peers)});
    EXPECT_EQ(peer.read_line(), "ready") << "life " << life;
    EXPECT_TRUE(wait_for_link(**port)) << "life " << life;
    const uint64_t before = received;
    while (received < before + 256) std::this_thread::yield();
    peer.kill(kDeaths[static_cast<size_t>(life) % kDeaths.size()]);
    while ((*port)->far_end() != port::FarEnd::kAway)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended = true;
  poller.join();
}

INSTANTIATE_TEST_SUITE_P(Memif, PeerDeath,
                         ::testing::Values(Role{"server", "client"}, Role{"client", "server"}),
                         [](const auto& role) { return std::string(role.param.ours); });

}  // namespace
}  // namespace uroce::testing
