#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/stack.h"

namespace uroce::engine {

/// All devices of a configuration, opened as a program opens them.
struct Loopback {
  explicit Loopback(Configuration configuration = embedded_pair())
      : stack(std::move(Stack::create(std::move(configuration)).value())) {
    for (size_t i = 0; i < stack->configuration().devices.size(); ++i) {
      auto device = stack->open(i);
      EXPECT_TRUE(device) << device.error().message;
      if (device) devices.push_back(*device);
    }
  }

  std::unique_ptr<Stack> stack;
  std::vector<std::shared_ptr<Device>> devices;
};

}  // namespace uroce::engine
