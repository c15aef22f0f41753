// A program of its own: a start of EAL that fails is final for the process.
#include <gtest/gtest.h>

#include "engine/device/stack.h"

namespace uroce::engine {
namespace {

TEST(EalStart, ThatFailsIsToldInOneLineAndNowhereElse) {
  Configuration configuration = embedded_pair();
  configuration.devices[0].port = "net_ring0";
  configuration.devices[1].port = "net_ring1";
  configuration.hugepages = false;
  configuration.eal_arguments = {"--no-such-argument"};
  auto stack = std::move(Stack::create(configuration).value());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto first = stack->open(0);
  const auto again = stack->open(1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(first);
  ASSERT_FALSE(again);
  EXPECT_EQ(first.error().message, again.error().message);
  EXPECT_TRUE(first.error().message.starts_with("EAL does not start: ")) << first.error().message;
  EXPECT_EQ(first.error().message.find('\n'), std::string::npos);
  EXPECT_FALSE(Stack::starting_on_this_thread());
}

}  // namespace
}  // namespace uroce::engine
