// Ports on interfaces of the kernel that go down, come back and are deleted.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "child.h"
#include "drivers/registry.h"
#include "eal.h"
#include "kernel_links.h"
#include "open_pair.h"
#include "wire/address_text.h"

namespace uroce::testing {
namespace {

class KernelLink : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
    ASSERT_TRUE(make_veth("near", "far", 3400));
    const std::string driver = GetParam();
    pair_ = open_pair(driver + "0,iface=near", driver + "1,iface=far");
    ASSERT_NE(pair_.far, nullptr);
  }

  /// A dead link takes frames as any does, gives their buffers back and delivers nothing.
  void expect_dead() {
    EXPECT_FALSE(pair_.near->link_up());
    port::PortQueue& queue = pair_.near->queue(0);
    ASSERT_EQ(send_frames(queue, 0, 20'000, 1000), 20'000u);
    port::RxFrame frame;
    EXPECT_EQ(queue.receive({&frame, 1}), 0);
  }

  [[nodiscard]] bool carries() {
    for (int tries = 0; tries < 100; ++tries) {
      if (send_frames(pair_.near->queue(0), 77, 1, 200) == 1) {
        for (const int64_t number : receive_frames(pair_.far->queue(0), 1, kSoon)) {
          if (number == 77) return true;
        }
      }
    }
    return false;
  }

  PortPair pair_;
};

TEST_P(KernelLink, GoesDownAndComesBack) {
  ASSERT_TRUE(carries());
  EXPECT_EQ(pair_.near->link_mbps(), 10'000u) << "what veth says";
  for (const char* which : {"near", "far"}) {
    ASSERT_TRUE(ip(std::string("link set ") + which + " down"));
    expect_dead();
    ASSERT_TRUE(ip(std::string("link set ") + which + " up"));
    ASSERT_TRUE(wait_for_link(*pair_.near)) << which;
    EXPECT_TRUE(carries()) << which;
    EXPECT_FALSE(pair_.near->gone());
  }
}

/// The kernel takes the tag of a received frame out and tells it apart from the bytes.
TEST_P(KernelLink, ATagArrivesInItsPlace) {
  ASSERT_TRUE(carries());
  std::vector<std::byte> tagged(100, std::byte{0x5A});
  const uint8_t begin[18] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0,    0,
                             0,    0,    1,    0x81, 0,    0x60, 7, 0x88, 0xB5};
  std::memcpy(tagged.data(), begin, sizeof(begin));
  port::PortQueue& from = pair_.near->queue(0);
  port::TxFrame out;
  ASSERT_EQ(from.allocate({&out, 1}), 1);
  std::memcpy(out.data, tagged.data(), tagged.size());
  out.length = static_cast<uint32_t>(tagged.size());
  ASSERT_EQ(from.transmit({&out, 1}), 1);
  port::PortQueue& to = pair_.far->queue(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool arrived = false;
  while (!arrived && std::chrono::steady_clock::now() < deadline) {
    port::RxFrame in;
    if (to.receive({&in, 1}) == 0) continue;
    arrived = in.length == tagged.size() && std::memcmp(in.data, tagged.data(), tagged.size()) == 0;
    to.release({&in, 1});
  }
  EXPECT_TRUE(arrived);
}

TEST_P(KernelLink, IsDeleted) {
  ASSERT_TRUE(carries());
  EXPECT_TRUE(pair_.near->link_changes());
  ASSERT_TRUE(ip("link delete near"));
  expect_dead();
  ASSERT_TRUE(make_veth("near", "far", 3400)) << "one of the same name is another interface";
  expect_dead();
  EXPECT_TRUE(pair_.near->gone());
}

TEST_P(KernelLink, ASecondProcessOnItIsRefusedAndLeavesTheFirstAlone) {
  const std::string driver = GetParam();
  Child second({"--echo", driver + "7,iface=near"});
  EXPECT_EQ(second.read_line(), driver + "7: another process uses the MAC on interface near");
  EXPECT_EQ(second.finish(), 1);
  EXPECT_TRUE(carries());
}

std::string error_of_opening(const std::string& driver, const char* mac, std::vector<Gid> addresses) {
  const auto port = drivers::open_port(
      {.devargs = driver + ",iface=near", .mac = wire::parse_mac(mac), .addresses = std::move(addresses)});
  return port ? "" : port.error().message;
}

TEST(KernelLinkAddresses, HaveOneUserEach) {
  if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
  ASSERT_EQ(start_eal(), "");
  ASSERT_TRUE(make_veth("near", "far", 3400));
  const auto address = [](uint8_t host) { return Gid::from_ipv4({192, 0, 2, host}); };
  constexpr const char* kMac = "02:00:00:00:00:01";
  constexpr const char* kOther = "02:00:00:00:00:02";
  constexpr const char* kItsOwn = "";
  {
    const auto port = drivers::open_port({.devargs = "net_af_packet0,iface=near",
                                          .mac = wire::parse_mac(kMac),
                                          .addresses = {address(1), address(2)}});
    ASSERT_TRUE(port) << port.error().message;
    // Whatever driver it is that the second asks.
    EXPECT_EQ(error_of_opening("net_af_packet1", kOther, {address(3), address(2)}),
              "net_af_packet1: another device of this process uses 192.0.2.2 on interface near");
    EXPECT_EQ(error_of_opening("net_pcap0", kMac, {address(3)}),
              "net_pcap0: another device of this process uses MAC 02:00:00:00:00:01 on interface near");
    EXPECT_EQ(error_of_opening("net_af_packet1", kOther, {address(3)}), "") << "a refusal keeps nothing";
    EXPECT_EQ(error_of_opening("net_af_packet1", kItsOwn, {address(3)}), "");
  }
  EXPECT_EQ(error_of_opening("net_af_packet1", kMac, {address(1), address(2)}), "");
}

INSTANTIATE_TEST_SUITE_P(Ports, KernelLink, ::testing::Values("net_af_packet", "net_af_xdp", "packet"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace uroce::testing
