// A program's own side of it: its device leaves the service and comes back.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/device/device.h"
#include "engine/device/stack.h"
#include "engine/poller/device_events.h"
#include "host/shared_device.h"
#include "tests/support/soon.h"
#include "tests/unit/service/reloadable_service.h"

namespace uroce::testing {
namespace {

/// A device of the service, as the verbs have it, and what is told of it.
class Program final : private engine::DeviceListener {
 public:
  Program(const std::string& socket, const std::string& device) {
    engine::Configuration configuration;
    configuration.devices.push_back({.name = device, .port = "host,socket=" + socket + ",device=" + device});
    configuration.hugepages = false;
    stack_ = std::move(*engine::Stack::create(std::move(configuration)));
    auto opened = stack_->open(0);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    device_ = std::move(*opened);
    device_->add_listener(*this);
  }
  ~Program() { device_->remove_listener(*this); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] engine::Device& device() { return *device_; }
  [[nodiscard]] int port_errors() const { return errors_; }
  [[nodiscard]] int recoveries() const { return recoveries_; }
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  void raised(engine::DeviceEvent event) override {
    if (event == engine::DeviceEvent::kPortError) ++errors_;
    if (event == engine::DeviceEvent::kPortActive) ++recoveries_;
    if (event == engine::DeviceEvent::kFatal) lost_ = true;
  }

  std::unique_ptr<engine::Stack> stack_;
  std::shared_ptr<engine::Device> device_;
  std::atomic<int> errors_{0};
  std::atomic<int> recoveries_{0};
  std::atomic<bool> lost_{false};
};

TEST(Returning, TheDeviceGoesAndComesBack) {
  ReloadableService service;
  const auto more = device_at("more", "loopback2", 2);
  ASSERT_EQ(service.reload({first_device(), more}).error, 0);
  Program program(service.path(), "more");
  Program other(service.path(), "uroce0");
  const NumberBlock numbers = program.device().numbers();
  for (int times = 1; times <= 2; ++times) {
    ASSERT_EQ(service.reload({first_device()}).error, 0);
    EXPECT_TRUE(soon([&] { return program.port_errors() == times; }));
    // Receive a refusal.
    const auto bound =
        program.device().shared_device()->bind(1, {.space = 0x0106, .address = Gid::from_ipv4({})});
    EXPECT_FALSE(bound);
    ASSERT_EQ(service.reload({first_device(), more}).error, 0);
    EXPECT_TRUE(soon([&] { return program.recoveries() == times; }));
    EXPECT_TRUE(program.device().link_up());
  }
  EXPECT_EQ(program.device().numbers(), numbers);
  EXPECT_TRUE(program.device().shared_device()->bind(1, {.space = 0x0106, .address = Gid::from_ipv4({})}));
  EXPECT_FALSE(program.lost());
  EXPECT_EQ(other.port_errors(), 0);
}

TEST(Returning, TheDeviceComesBackWithMoreAddresses) {
  ReloadableService service;
  Program program(service.path(), "uroce0");
  engine::DeviceConfiguration changed = first_device();
  const Gid address = Gid::from_ipv4({192, 0, 2, 77});
  changed.addresses.push_back({address, 24});
  ASSERT_EQ(service.reload({changed}).error, 0);
  EXPECT_TRUE(soon([&] { return program.device().gids().owns(address) && program.device().link_up(); }));
}

TEST(Returning, AnotherDeviceByThatName_ExpectTheEndOfThisOne) {
  ReloadableService service;
  Program program(service.path(), "uroce0");
  auto another = device_at("uroce0", "loopback0", 2);
  ASSERT_EQ(service.reload({another}).error, 0);
  EXPECT_TRUE(soon([&] { return program.lost(); }));
  EXPECT_FALSE(program.device().link_up());
  // Expect: a program that opens it anew has it.
  Program anew(service.path(), "uroce0");
  EXPECT_EQ(anew.device().mac(), *another.mac);
  EXPECT_TRUE(anew.device().link_up());
}

}  // namespace
}  // namespace uroce::testing
