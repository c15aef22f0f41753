#include "engine/device/stack.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace uroce::engine {
namespace {

DeviceConfiguration device_on(std::string port) {
  DeviceConfiguration device;
  device.port = std::move(port);
  device.addresses = {{Gid::from_ipv4({10, 77, 0, 1}), 24}};
  return device;
}

TEST(Stack, NamesAMacForPortsThatHaveNoneOfTheirOwn) {
  const MacAddress given{{0x02, 0, 0, 0, 0, 9}};
  Configuration configuration;
  configuration.devices = {device_on("net_memif0,role=server"), device_on("loopback0"),
                           device_on("net_af_packet0,iface=lo"), device_on("net_ring0")};
  configuration.devices.push_back(device_on("net_memif1"));
  configuration.devices.back().mac = given;
  configuration.devices.push_back(device_on("net_memif2"));
  configuration.devices.back().addresses.clear();

  const auto stack = Stack::create(configuration);
  ASSERT_TRUE(stack);
  const std::vector<DeviceConfiguration>& devices = stack.value()->configuration().devices;
  const MacAddress derived{{0x02, 0, 10, 77, 0, 1}};
  EXPECT_EQ(devices[0].mac, derived);
  EXPECT_EQ(devices[1].mac, std::nullopt);
  EXPECT_EQ(devices[2].mac, std::nullopt);
  EXPECT_EQ(devices[3].mac, derived);
  EXPECT_EQ(devices[4].mac, given);
  EXPECT_EQ(devices[5].mac, std::nullopt);
}

TEST(Stack, RefusesToLetPollersSleepWhereFramesDoNotWakeThem) {
  Configuration configuration;
  configuration.devices = {device_on("loopback0"), device_on("loopback1")};
  configuration.poller_idle = PollerIdle::kInterrupt;
  for (const PollerMode mode : {PollerMode::kInline, PollerMode::kDedicated}) {
    configuration.poller_mode = mode;
    const auto stack = Stack::create(configuration);
    ASSERT_TRUE(stack);
    const auto device = stack.value()->open(0);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ENOTSUP);
    EXPECT_NE(device.error().message.find("poller.idle"), std::string::npos) << device.error().message;
    EXPECT_NE(device.error().message.find("port loopback0"), std::string::npos) << device.error().message;
  }
}

TEST(Stack, LetsPollersSleepWhoseWireHasNoOtherEnd) {
  Configuration configuration;
  configuration.devices = {device_on("loopback0")};
  configuration.poller_idle = PollerIdle::kInterrupt;
  configuration.poller_mode = PollerMode::kDedicated;
  configuration.pollers_per_device = 2;
  const auto stack = Stack::create(configuration);
  ASSERT_TRUE(stack);
  const auto device = stack.value()->open(0);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ((*device)->information().poller_idle, PollerIdle::kInterrupt);
  EXPECT_EQ((*device)->information().frame_events, 0u);
}

}  // namespace
}  // namespace uroce::engine
