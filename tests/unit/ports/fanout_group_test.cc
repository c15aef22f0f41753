// net_af_packet's fanout groups: two devices never share one, and a name that is taken keeps none from
// opening.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "drivers/registry.h"
#include "eal.h"
#include "kernel_links.h"
#include "open_pair.h"
#include "wire/address_text.h"

namespace uroce::testing {
namespace {

class FanoutGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
    ASSERT_EQ(start_eal(), "");
    ASSERT_TRUE(make_veth("near", "far", 3400));
  }

  static port::Specification device(const std::string& devargs, uint8_t number) {
    Gid address{};
    address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, number};
    return {.devargs = devargs, .addresses = {address}};
  }
};

/// Each gets all that arrives on the interface, although one process has made both.
TEST_F(FanoutGroup, IsNotSharedByTwoDevicesOnOneInterface) {
  auto far = drivers::open_port(device("net_af_packet7,iface=far", 1));
  auto one = drivers::open_port(device("net_af_packet8,iface=near", 2));
  auto other = drivers::open_port(device("net_af_packet9,iface=near", 3));
  ASSERT_TRUE(far) << far.error().message;
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_TRUE(wait_for_link(**far));
  constexpr uint32_t kFrames = 32;
  ASSERT_EQ(send_frames((*far)->queue(0), 1000, kFrames, 200), kFrames);
  for (auto* port : {&**one, &**other}) {
    std::set<int64_t> seen;
    for (int tries = 0; tries < 100 && seen.size() < kFrames; ++tries) {
      for (const int64_t number : receive_frames(port->queue(0), kFrames, kSoon))
        if (number >= 1000) seen.insert(number);
    }
    EXPECT_EQ(seen.size(), kFrames);
  }
}

/// The kernel refuses a group of the same name on another interface.
TEST_F(FanoutGroup, TakesAnotherNameWhenItsOwnIsTaken) {
  const int taken = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  ASSERT_GE(taken, 0);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex("far"));
  ASSERT_EQ(bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const unsigned name = (static_cast<unsigned>(getpid()) ^ if_nametoindex("near")) & 0xFFFF;
  const unsigned wanted = name | PACKET_FANOUT_HASH << 16;
  ASSERT_EQ(setsockopt(taken, SOL_PACKET, PACKET_FANOUT, &wanted, sizeof wanted), 0);
  const auto port = drivers::open_port(device("net_af_packet8,iface=near", 2));
  EXPECT_TRUE(port) << port.error().message;
  close(taken);
}

TEST_F(FanoutGroup, WhatDpdkComplainsOfIsTheReason) {
  int asked = 0;
  const auto complaint = [&] { return ++asked == 1 ? std::string() : std::string("it is of glass"); };
  const auto refused = drivers::open_port({.devargs = "net_nonsense0", .dpdk_complaint = complaint});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "net_nonsense0: no DPDK driver opens 'net_nonsense0' (it is of glass)");
}

}  // namespace
}  // namespace uroce::testing
