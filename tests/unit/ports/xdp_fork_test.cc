// A process forks with an AF_XDP port open.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "drivers/registry.h"
#include "kernel_links.h"

namespace uroce::testing {
namespace {

TEST(XdpFork, ChildThatLives_ExpectTheInterfaceFreeOnceItsParentHasClosedThePort) {
  if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
  ASSERT_TRUE(make_veth("near", "far", 1500));
  const auto open = [] {
    return drivers::open_port({.kernels_interface = "near", .kernel_path = port::KernelPath::kXdp});
  };
  auto port = open();
  if (!port) GTEST_SKIP() << port.error().message;
  std::array<int, 2> lives{};
  ASSERT_EQ(pipe(lives.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(lives[1]);
    char byte = 0;
    _exit(read(lives[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(lives[0]);
  port->reset();
  const auto again = open();
  EXPECT_TRUE(again) << again.error().message;
  close(lives[1]);
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::testing
