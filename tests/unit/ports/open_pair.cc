#include "open_pair.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "drivers/registry.h"
#include "eal.h"

namespace uroce::testing {

bool wait_for_link(const port::Port& port) {
  constexpr int kWaitsMax = 60'000;
  const auto ready = [&port] { return port.link_up() && port.far_end() != port::FarEnd::kAway; };
  for (int i = 0; i < kWaitsMax && !ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ready();
}

PortPair open_pair(const std::string& near, const std::string& far) {
  PortPair pair;
  for (const auto& [port, devargs] : {std::pair{&pair.near, near}, std::pair{&pair.far, far}}) {
    EXPECT_EQ(drivers::needs_eal(devargs) ? start_eal() : "", "");
    auto opened = drivers::open_port({.devargs = devargs});
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return {};
    }
    *port = std::move(*opened);
  }
  EXPECT_TRUE(wait_for_link(*pair.near) && wait_for_link(*pair.far))
      << near << " and " << far << " do not meet";
  return pair;
}

}  // namespace uroce::testing
