// Ports on interfaces of the kernel that go down, come back and are deleted.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kernel_links.h"
#include "open_pair.h"

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
  for (const char* which : {"near", "far"}) {
    ASSERT_TRUE(ip(std::string("link set ") + which + " down"));
    expect_dead();
    ASSERT_TRUE(ip(std::string("link set ") + which + " up"));
    ASSERT_TRUE(wait_for_link(*pair_.near)) << which;
    EXPECT_TRUE(carries()) << which;
  }
}

TEST_P(KernelLink, IsDeleted) {
  ASSERT_TRUE(carries());
  ASSERT_TRUE(ip("link delete near"));
  expect_dead();
  ASSERT_TRUE(make_veth("near", "far", 3400)) << "one of the same name is another interface";
  expect_dead();
}

INSTANTIATE_TEST_SUITE_P(Ports, KernelLink, ::testing::Values("net_af_packet", "net_af_xdp"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace uroce::testing
