// A program of its own, which has started EAL before us, as an SPDK application does.
#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_log.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "connected_pair.h"
#include "engine/platform/eal.h"
#include "loopback.h"

namespace uroce::engine {
namespace {

TEST(EalStart, IsNotRepeatedInAProcessThatHasIt) {
  std::vector<std::string> arguments = {"host",
                                        "--no-huge",
                                        "-m",
                                        "256",
                                        "--no-shconf",
                                        "--iova-mode=va",
                                        "--no-pci",
                                        "--no-telemetry",
                                        "--log-level=1",
                                        "--lcores=0",
                                        "--file-prefix=uroce_host_" + std::to_string(getpid())};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ASSERT_GE(rte_eal_init(static_cast<int>(argv.size()), argv.data()), 0);
  rmdir(rte_eal_get_runtime_dir());
  FILE* const log = rte_log_get_stream();
  const uint32_t level = rte_log_get_global_level();

  Configuration configuration = embedded_pair();
  configuration.devices[0].port = "net_ring0";
  configuration.devices[1].port = "net_ring1";
  {
    const Loopback loopback(configuration);
    ASSERT_EQ(loopback.devices.size(), 2u);
    EXPECT_TRUE(eal_state().attached);
    expect_a_write(loopback.devices[0], loopback.devices[1]);
  }
  // The host's lcore and log are as they were.
  EXPECT_EQ(rte_lcore_id(), rte_get_main_lcore());
  EXPECT_EQ(rte_log_get_stream(), log);
  EXPECT_EQ(rte_log_get_global_level(), level);
}

}  // namespace
}  // namespace uroce::engine
