#include "engine/device.h"

#include <gtest/gtest.h>

#include "connected_pair.h"

namespace uroce::engine {
namespace {

/// The embedded default with whatever a test changes.
struct Loopback {
  explicit Loopback(Configuration configuration = embedded_default())
      : stack(std::move(Stack::create(std::move(configuration)).value())) {
    for (size_t i = 0; i < stack->configuration().devices.size(); ++i) {
      auto device = stack->open(i);
      EXPECT_TRUE(device) << device.error().message;
      devices.push_back(*device);
    }
  }

  std::unique_ptr<Stack> stack;
  std::vector<std::shared_ptr<Device>> devices;
};

TEST(Device, WritesToTheOtherEndOfTheWire) {
  Loopback loopback;
  Side left(loopback.devices[0], 100'000);
  Side right(loopback.devices[1], 100'000);
  ASSERT_EQ(left.connect(right), 0);
  ASSERT_EQ(right.connect(left), 0);

  fill(left.buffer(), 1);
  left.post_write(right, 100'000, 77);
  const queue::Completion completion = left.wait();
  EXPECT_EQ(completion.status, queue::CompletionStatus::kSuccess);
  EXPECT_EQ(completion.wr_id, 77u);
  EXPECT_EQ(left.buffer(), right.buffer());
}

}  // namespace
}  // namespace uroce::engine
