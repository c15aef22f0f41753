// A program of its own: EAL starts once in a process and does not end before it.
#include "engine/platform/eal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "connected_pair.h"
#include "engine/device/device_state.h"
#include "loopback.h"

namespace uroce::engine {
namespace {

bool has(const std::vector<std::string>& arguments, std::string_view argument) {
  return std::ranges::find(arguments, argument) != arguments.end();
}

TEST(EalArguments, SuitTheMemoryThatThereIs) {
  Configuration configuration;
  configuration.memory_mb = 77;
  configuration.eal_arguments = {"--extra"};
  const auto small = eal_arguments(configuration, {}, false);
  EXPECT_TRUE(has(small, "--no-huge"));
  EXPECT_TRUE(has(small, "--no-shconf"));
  EXPECT_TRUE(has(small, "77"));
  EXPECT_TRUE(has(small, "--file-prefix=uroce-" + std::to_string(getpid())));
  EXPECT_FALSE(has(small, "--in-memory"));
  EXPECT_EQ(small.back(), "--extra");
  const auto huge = eal_arguments(configuration, {}, true);
  EXPECT_TRUE(has(huge, "--in-memory"));
  EXPECT_FALSE(has(huge, "--no-huge"));
}

TEST(EalArguments, SpeakOfTheProcesssAddressesUnlessANicDecides) {
  const std::string nic[] = {"0000:3b:00.1"};
  EXPECT_TRUE(has(eal_arguments({}, {}, true), "--iova-mode=va"));
  EXPECT_TRUE(has(eal_arguments({}, nic, false), "--iova-mode=va"));
  EXPECT_FALSE(has(eal_arguments({}, nic, true), "--iova-mode=va"));
}

TEST(EalArguments, LeaveOtherPeoplesNicsAlone) {
  const std::string virtual_only[] = {"net_memif0,role=server"};
  EXPECT_TRUE(has(eal_arguments({}, virtual_only, false), "--no-pci"));
  const std::string with_nic[] = {"net_memif0,role=server", "0000:3b:00.1,some=option", "3c:00.0"};
  const auto arguments = eal_arguments({}, with_nic, false);
  EXPECT_FALSE(has(arguments, "--no-pci"));
  EXPECT_TRUE(has(arguments, "0000:3b:00.1,some=option"));
  EXPECT_TRUE(has(arguments, "3c:00.0"));
  EXPECT_FALSE(has(arguments, "net_memif0,role=server"));
}

Configuration ring_configuration(PollerMode mode) {
  Configuration configuration = embedded_pair();
  configuration.poller_mode = mode;
  configuration.devices[0].port = "net_ring0";
  configuration.devices[1].port = "net_ring1";
  configuration.hugepages = false;
  return configuration;
}

class DpdkPort : public testing::TestWithParam<PollerMode> {};

TEST_P(DpdkPort, CarriesWritesUnderALcoreIdOfThePoller) {
  cpu_set_t before;
  cpu_set_t after;
  sched_getaffinity(0, sizeof(before), &before);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (int life = 0; life < 2; ++life) {
    const Loopback loopback(ring_configuration(GetParam()));
    ASSERT_EQ(loopback.devices.size(), 2u);
    EXPECT_TRUE(loopback.devices[0]->information().eal);
    Side left(loopback.devices[0], 300'000);
    Side right(loopback.devices[1], 300'000);
    ASSERT_EQ(connect_pair(left, right), 0);
    for (uint64_t round = 0; round < 5; ++round) {
      fill(left.buffer(), round);
      left.post_write(right, 300'000, round);
      EXPECT_EQ(left.wait().status, queue::CompletionStatus::kSuccess);
      ASSERT_EQ(left.buffer(), right.buffer());
    }
    uint32_t scoped_lcore = kNoLcore;
    static_cast<PollerQp&>(left.queue_pair()).poller().run([&](qp::Turn&) { scoped_lcore = rte_lcore_id(); });
    EXPECT_NE(scoped_lcore, kNoLcore);
    EXPECT_NE(scoped_lcore, rte_get_main_lcore());
    EXPECT_EQ(rte_lcore_id(), kNoLcore);
  }
  // Neither a word, nor a changed thread, nor a file.
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_FALSE(std::filesystem::exists(rte_eal_get_runtime_dir()));
  EXPECT_TRUE(eal_state().running);
  EXPECT_FALSE(eal_state().attached);
}

INSTANTIATE_TEST_SUITE_P(Modes, DpdkPort, testing::Values(PollerMode::kInline, PollerMode::kDedicated));

TEST(EalStart, AgainByTheProgramItselfIsRefusedAndHarmsNothing) {
  const Loopback loopback(ring_configuration(PollerMode::kInline));
  ASSERT_EQ(loopback.devices.size(), 2u);
  std::string name = "host";
  std::array<char*, 2> argv = {name.data(), nullptr};
  EXPECT_EQ(rte_eal_init(1, argv.data()), -1);
  EXPECT_EQ(rte_errno, EALREADY);
  expect_a_write(loopback.devices[0], loopback.devices[1]);
}

TEST(LcoreIds, AreGivenBack) {
  Configuration configuration = ring_configuration(PollerMode::kInline);
  const std::string devargs[] = {"net_ring0"};
  ASSERT_TRUE(start_eal(configuration, devargs));
  for (int i = 0; i < 3 * RTE_MAX_LCORE; ++i) {
    const auto lcore = reserve_lcore();
    ASSERT_TRUE(lcore) << lcore.error().message;
    release_lcore(*lcore);
  }
}

}  // namespace
}  // namespace uroce::engine
