// Addresses of a device that come and go while it is in use.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "connected_pair.h"
#include "engine/poller/device_events.h"
#include "loopback.h"
#include "tests/support/soon.h"

namespace uroce::engine {
namespace {

constexpr uint8_t kPrefix = 24;

Gid first(uint8_t host) { return Gid::from_ipv4({192, 0, 2, host}); }
Gid second(uint8_t host) { return Gid::from_ipv4({198, 51, 100, host}); }

struct Told final : DeviceListener {
  std::atomic<int> changes{0};
  void raised(DeviceEvent event) override { changes += event == DeviceEvent::kGidChange ? 1 : 0; }
};

class AddressChanges : public testing::TestWithParam<uint16_t> {
 protected:
  AddressChanges() : loopback(configuration()) {}

  static Configuration configuration() {
    Configuration configuration = embedded_pair();
    configuration.pollers_per_device = GetParam();
    return configuration;
  }
  /// Of each device the address at GID index 1 is another one then.
  void move_to_second() {
    for (uint8_t host = 1; host <= 2; ++host) {
      Device& device = *loopback.devices[host - 1u];
      ASSERT_EQ(device.remove_address(first(host)), 0);
      ASSERT_EQ(device.add_address({second(host), kPrefix}), 0);
      ASSERT_EQ(device.gids().at(1), second(host));
    }
  }

  Loopback loopback;
};

TEST_P(AddressChanges, ConnectionsAreMadeOverAddressesThatCameLater) {
  move_to_second();
  expect_a_write(loopback.devices[0], loopback.devices[1]);
}

TEST_P(AddressChanges, WhatComesToAnAddressThatWentIsDropped) {
  Side left(loopback.devices[0], 1000);
  Side right(loopback.devices[1], 1000);
  ASSERT_EQ(connect_pair(left, right), 0);
  const Device& device = *loopback.devices[1];
  ASSERT_EQ(loopback.devices[1]->remove_address(first(2)), 0);
  const uint64_t dropped = device.counter(Counter::kDropNotOurAddress);
  fill(left.buffer(), 1);
  left.post_write(right, 1000);
  EXPECT_TRUE(soon([&] {
    (void)left.poll();
    return device.counter(Counter::kDropNotOurAddress) > dropped;
  }));
  EXPECT_NE(left.buffer(), right.buffer());
}

TEST_P(AddressChanges, DisturbNothingElse) {
  Side left(loopback.devices[0], 50'000);
  Side right(loopback.devices[1], 50'000);
  ASSERT_EQ(connect_pair(left, right), 0);
  Told told;
  loopback.devices[1]->add_listener(told);
  std::atomic<bool> stop{false};
  int rounds = 0;
  std::thread changing([&] {
    while (!stop) {
      ASSERT_EQ(loopback.devices[1]->add_address({second(7), kPrefix, 5}), 0);
      ASSERT_EQ(loopback.devices[1]->remove_address(second(7)), 0);
      ++rounds;
    }
  });
  for (uint64_t round = 0; round < 200; ++round) {
    fill(left.buffer(), round);
    left.post_write(right, 50'000, round);
    EXPECT_EQ(left.wait().status, queue::CompletionStatus::kSuccess);
    ASSERT_EQ(left.buffer(), right.buffer());
  }
  stop = true;
  changing.join();
  EXPECT_EQ(told.changes, 2 * rounds);
  loopback.devices[1]->remove_listener(told);
  EXPECT_EQ(loopback.devices[1]->gids().size(), 2u);
}

TEST_P(AddressChanges, MistakesChangeNothing) {
  Device& device = *loopback.devices[0];
  Told told;
  device.add_listener(told);
  EXPECT_EQ(device.add_address({first(1), kPrefix}), EEXIST);
  EXPECT_EQ(device.add_address({device.gids().at(0), 64}), EEXIST);
  EXPECT_EQ(device.remove_address(second(1)), ENOENT);
  EXPECT_EQ(device.remove_address(device.gids().at(0)), ENOENT) << "that is the MAC's";
  EXPECT_EQ(device.remove_address(Gid{}), ENOENT);
  EXPECT_EQ(told.changes, 0);
  for (uint32_t index = 2; index < net::GidTable::kAddedMax; ++index)
    ASSERT_EQ(device.add_address({Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(index)}), kPrefix}), 0);
  EXPECT_EQ(device.add_address({second(1), kPrefix}), ENOSPC);
  device.remove_listener(told);
}

INSTANTIATE_TEST_SUITE_P(Pollers, AddressChanges, testing::Values(uint16_t{1}, uint16_t{2}));

}  // namespace
}  // namespace uroce::engine
