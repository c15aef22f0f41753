#include "service/device_plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>

namespace uroce::testing {
namespace {

using engine::DeviceConfiguration;
using service::DevicePlan;
using service::plan_devices;
using service::ServedAs;
using Devices = std::vector<DeviceConfiguration>;
using Indexes = std::vector<size_t>;
using Names = std::vector<std::string>;

DeviceConfiguration device(std::string name, std::string port) {
  return {.name = std::move(name), .port = std::move(port)};
}

DevicePlan plan(const Devices& served, const Devices& wanted, std::initializer_list<size_t> gone = {}) {
  std::vector<ServedAs> all;
  for (const DeviceConfiguration& one : served) all.push_back({one});
  for (const size_t index : gone) all[index].gone = true;
  return plan_devices(all, wanted);
}

bool changes_nothing(const DevicePlan& plan) {
  return plan.added.empty() && plan.replacing.empty() && plan.in_the_way.empty() && plan.removed.empty();
}

TEST(DevicePlan, TheSameDevicesInAnyOrder_ExpectNothing) {
  const Devices served = {device("a", "loopback0"), device("b", "loopback2")};
  EXPECT_TRUE(changes_nothing(plan(served, served)));
  EXPECT_TRUE(changes_nothing(plan(served, {served[1], served[0]})));
}

TEST(DevicePlan, DevicesComeAndGo) {
  const DevicePlan plans = plan({device("a", "loopback0"), device("b", "loopback2")},
                                {device("b", "loopback2"), device("c", "loopback4")});
  EXPECT_EQ(plans.added, Indexes{1});
  EXPECT_EQ(plans.removed, Names{"a"});
  EXPECT_TRUE(plans.replacing.empty() && plans.in_the_way.empty());
}

TEST(DevicePlan, OtherSettings_ExpectAReplacement) {
  Devices wanted = {device("a", "loopback0")};
  wanted[0].addresses.push_back({Gid::from_ipv4({192, 0, 2, 7}), 24});
  const DevicePlan plans = plan({device("a", "loopback0")}, wanted);
  EXPECT_EQ(plans.replacing, Indexes{0});
  EXPECT_EQ(plans.in_the_way, Names{"a"});
  EXPECT_TRUE(plans.added.empty() && plans.removed.empty());
}

TEST(DevicePlan, AnotherNameForThePortOrItsInterface_ExpectAReplacement) {
  for (const auto& [before, after] : std::initializer_list<std::pair<const char*, const char*>>{
           {"loopback0", "loopback0"},
           {"net_af_packet0,iface=eth0", "net_af_packet0,iface=eth1"},
           {"net_af_packet0,iface=eth0", "net_af_packet1,iface=eth0"}}) {
    const DevicePlan plans = plan({device("a", before)}, {device("b", after)});
    EXPECT_EQ(plans.replacing, Indexes{0}) << after;
    EXPECT_EQ(plans.in_the_way, Names{"a"}) << after;
  }
  EXPECT_EQ(
      plan({device("a", "net_af_packet0,iface=eth0")}, {device("b", "net_af_packet1,iface=eth1")}).added,
      Indexes{0});
}

TEST(DevicePlan, WhatWasTakenAway_ExpectAReplacement) {
  const Devices served = {device("a", "loopback0"), device("b", "loopback2")};
  const DevicePlan plans = plan(served, served, {1});
  EXPECT_EQ(plans.replacing, Indexes{1});
  EXPECT_EQ(plans.in_the_way, Names{"b"});
}

TEST(DevicePlan, TheEndsOfAWireStayTogether) {
  const Devices pair = {device("a", "loopback0"), device("b", "loopback1")};
  const Devices one = {pair[0]};
  // Receive another end.
  DevicePlan plans = plan(one, pair);
  EXPECT_EQ(plans.replacing, (Indexes{0, 1}));
  EXPECT_EQ(plans.in_the_way, Names{"a"});
  // Receive one end less.
  plans = plan(pair, one);
  EXPECT_EQ(plans.replacing, Indexes{0});
  EXPECT_EQ(plans.in_the_way, (Names{"a", "b"}));
  EXPECT_TRUE(changes_nothing(plan(pair, pair)));
}

TEST(DevicePlan, AnAddressIsOneDevices) {
  Devices devices = {device("a", "loopback0"), device("b", "loopback2")};
  devices[0].addresses = {{Gid::from_ipv4({192, 0, 2, 1}), 24}};
  devices[1].addresses = {{Gid::from_ipv4({192, 0, 2, 2}), 24}};
  EXPECT_TRUE(service::check_addresses(devices));
  devices[1].addresses.push_back({Gid::from_ipv4({192, 0, 2, 1}), 16});
  const Status status = service::check_addresses(devices);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "b: address 192.0.2.1 is a's already");
}

TEST(DevicePlan, AnInterfaceThatIsNotThereIsNamed) {
  EXPECT_TRUE(service::check_interface(device("a", "loopback0")));
  EXPECT_TRUE(service::check_interface(device("a", "net_af_packet0,iface=lo")));
  const Status status = service::check_interface(device("a", "net_af_packet0,iface=none0"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENODEV);
  EXPECT_EQ(status.error().message, "a: there is no interface none0");
}

}  // namespace
}  // namespace uroce::testing
