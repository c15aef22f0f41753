// Two processes and a vhost-user link between them.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "child.h"
#include "drivers/registry.h"
#include "eal.h"
#include "open_pair.h"
#include "temporary_folder.h"

namespace uroce::testing {
namespace {

TEST(Vhost, PeersComeAndGo) {
  ASSERT_EQ(start_eal(), "");
  const TemporaryFolder folder;
  const std::string socket = folder.path() + "/vhost.sock";
  auto server = drivers::open_port({.devargs = "net_vhost0,iface=" + socket});
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_TRUE(server.value()->link_up()) << "the end that starts first can run";
  EXPECT_EQ(server.value()->far_end(), port::FarEnd::kAway);
  EXPECT_EQ(send_frames((*server)->queue(0), 0, 5000, 100), 5000u) << "lost, as on a wire without a peer";
  for (int life = 0; life < 2; ++life) {
    Child client({"--echo", "net_virtio_user0,path=" + socket});
    ASSERT_EQ(client.read_line(), "ready");
    ASSERT_TRUE(wait_for_link(**server)) << "life " << life;
    port::PortQueue& queue = (*server)->queue(0);
    const uint32_t longest = (*server)->capabilities().frame_bytes_max;
    for (uint32_t number = 0; number < 200; ++number) {
      const uint32_t length = 60 + number * 97 % (longest - 59);
      while (send_frames(queue, number, 1, length) == 0) std::this_thread::yield();
      ASSERT_EQ(receive_frames(queue, 1), std::vector<int64_t>{number}) << length << " bytes";
    }
    client.kill();
    while (server.value()->far_end() != port::FarEnd::kAway)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server->reset();
  EXPECT_FALSE(std::filesystem::exists(socket)) << "a closed one leaves nothing";
}

TEST(Vhost, ASecondServerIsRefusedAndADeadOnesSocketIsNot) {
  ASSERT_EQ(start_eal(), "");
  const TemporaryFolder folder;
  const std::string devargs = "net_vhost0,iface=" + folder.path() + "/vhost.sock";
  Child other({"--echo", devargs});
  ASSERT_EQ(other.read_line(), "ready");
  const auto refused = drivers::open_port({.devargs = devargs});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY) << refused.error().message;
  other.kill();
  const auto server = drivers::open_port({.devargs = devargs});
  EXPECT_TRUE(server) << server.error().message;
}

}  // namespace
}  // namespace uroce::testing
