// Devices come and go while programs are attached.
#include <cerrno>
#include <nlohmann/json.hpp>

#include "tests/support/soon.h"
#include "tests/unit/service/reloadable_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;
using Names = std::vector<std::string>;

/// The service has looked at its devices since.
void wait_for_a_tick(const std::string& path) {
  const auto seconds_now = [&] {
    return nlohmann::json::parse(FakeProgram(path).status())["seconds"].get<int>();
  };
  const int begin = seconds_now();
  EXPECT_TRUE(soon([&] { return seconds_now() >= begin + 2; }));
}

TEST(Reload, ADeviceComes) {
  ReloadableService service;
  FakeProgram a(service.path());
  a.attach();
  ASSERT_TRUE(a.receive(MessageType::kPrograms));
  EXPECT_EQ(service.reload({first_device(), device_at("more", "loopback2", 2)}).error, 0);
  EXPECT_EQ(service.devices(), (Names{"uroce0", "more"}));
  // Expect: nothing has happened to the other device, and programs attach to this one.
  EXPECT_TRUE(a.silent());
  FakeProgram b(service.path());
  const Message attached = b.attach(0, "more");
  ASSERT_EQ(attached.type, MessageType::kAttached);
  EXPECT_EQ(attached.mac, (MacAddress{{0x02, 0, 0, 0, 0, 2}}));
}

TEST(Reload, ADeviceGoes) {
  ReloadableService service;
  ASSERT_EQ(service.reload({first_device(), device_at("more", "loopback2", 2)}).error, 0);
  FakeProgram stays(service.path());
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  stays.attach();
  a.attach(0, "more");
  b.attach(0, "more");
  EXPECT_EQ(stays.bind(1, 7471).error, 0);
  // A neighbour that the service watches from now on, and a question that is open.
  const Gid own = Gid::from_ipv4({192, 0, 2, 2});
  ASSERT_TRUE(a.send({.type = MessageType::kResolve, .address = own}));
  ASSERT_TRUE(a.receive(MessageType::kResolved));
  ASSERT_TRUE(b.send({.type = MessageType::kResolve, .address = kPeerAddress}));
  ASSERT_TRUE(b.send({.type = MessageType::kIntroduce, .request = 7, .number = a.number(), .channel = 3}));
  ASSERT_TRUE(a.receive(MessageType::kIntroduction));
  EXPECT_EQ(service.reload({first_device()}).error, 0);
  EXPECT_EQ(service.devices(), Names{"uroce0"});
  for (FakeProgram* const program : {&a, &b}) {
    // Expect: the program hears why, and not that the other one has ended, which it has not.
    for (auto message = program->receive(); message; message = program->receive()) {
      EXPECT_NE(message->message.type, MessageType::kGone);
      if (message->message.type == MessageType::kDone && message->message.request == 0) {
        EXPECT_EQ(message->message.error, ENODEV);
      }
    }
    EXPECT_TRUE(program->closed());
  }
  wait_for_a_tick(service.path());
  EXPECT_EQ(stays.bind(2, 7471).error, EADDRINUSE);
  EXPECT_EQ(stays.bind(3, 7472).error, 0);
  FakeProgram late(service.path());
  EXPECT_EQ(late.attach(0, "more").error, ENODEV);
  // Receive the device again. Expect: its programs have their numbers back.
  EXPECT_EQ(service.reload({first_device(), device_at("more", "loopback2", 2)}).error, 0);
  FakeProgram back(service.path());
  EXPECT_EQ(back.attach_again(a, "more").number, a.number());
}

TEST(Reload, TheFirstDeviceOfTheFileIsThatOfProgramsThatNameNone) {
  ReloadableService service;
  ASSERT_EQ(service.reload({device_at("more", "loopback2", 2), first_device()}).error, 0);
  FakeProgram a(service.path());
  EXPECT_EQ(host::text_of(a.attach().name), "more");
  // Receive another order alone. Expect: it is taken, and no program is disturbed.
  ASSERT_EQ(service.reload({first_device(), device_at("more", "loopback2", 2)}).error, 0);
  EXPECT_EQ(a.bind(1, 0).error, 0);
  EXPECT_EQ(service.devices(), (Names{"uroce0", "more"}));
}

TEST(Reload, OtherSettings_ExpectTheDeviceAnewAndItsNumbersKept) {
  ReloadableService service;
  FakeProgram a(service.path());
  a.attach();
  engine::DeviceConfiguration changed = first_device();
  changed.addresses.push_back({Gid::from_ipv4({192, 0, 2, 77}), 24});
  EXPECT_EQ(service.reload({changed}).error, 0);
  EXPECT_TRUE(a.closed());
  // Expect: numbers that are about to be claimed are given to no other program.
  std::vector<std::unique_ptr<FakeProgram>> others;
  for (int i = 0; i < 50; ++i) {
    others.push_back(std::make_unique<FakeProgram>(service.path()));
    EXPECT_NE(others.back()->attach().number, a.number());
  }
  FakeProgram back(service.path());
  const Message attached = back.attach_again(a);
  EXPECT_EQ(attached.number, a.number());
  EXPECT_EQ(attached.port, 2);  // addresses
}

TEST(Reload, AMistake_ExpectNothingChanged) {
  ReloadableService service;
  FakeProgram a(service.path());
  a.attach();
  ASSERT_TRUE(a.receive(MessageType::kPrograms));
  const service::ServiceConfiguration quotas{.quotas = {.programs = 1}};
  const auto good = device_at("good", "loopback2", 2);
  // Receive a port that cannot be opened.
  Message refused = service.reload({good, device_at("bad", "loopback4,steer=no", 3)}, quotas);
  EXPECT_EQ(refused.error, EINVAL);
  EXPECT_EQ(host::text_of(refused.text).substr(0, 5), "bad: ");
  // Receive an address twice.
  refused = service.reload({first_device(), good, device_at("bad", "loopback4", 2)}, quotas);
  EXPECT_EQ(refused.error, EEXIST);
  EXPECT_EQ(host::text_of(refused.text), "bad: address 192.0.2.2 is good's already");
  // Receive an interface that is not there, for a device that is.
  engine::DeviceConfiguration moved = first_device();
  moved.port = "net_af_packet0,iface=none0";
  refused = service.reload({moved, good}, quotas);
  EXPECT_EQ(refused.error, ENODEV);
  EXPECT_EQ(service.devices(), Names{"uroce0"});
  EXPECT_TRUE(a.silent());
  FakeProgram b(service.path());
  EXPECT_EQ(b.attach().type, MessageType::kAttached);
}

TEST(Reload, AReplacementThatCannotBeOpened_ExpectTheDeviceAsItWas) {
  ReloadableService service;
  ASSERT_EQ(service.reload({first_device(), device_at("other", "loopback2", 2)}).error, 0);
  FakeProgram other(service.path());
  other.attach(0, "other");
  ASSERT_TRUE(other.receive(MessageType::kPrograms));
  FakeProgram a(service.path());
  a.attach();
  engine::DeviceConfiguration changed = first_device();
  changed.port = "loopback0,steer=no";
  const Message refused =
      service.reload({changed, device_at("other", "loopback2", 2), device_at("good", "loopback4", 3)});
  EXPECT_EQ(refused.error, EINVAL);
  EXPECT_EQ(host::text_of(refused.text).substr(0, 8), "uroce0: ");
  EXPECT_EQ(service.devices(), (Names{"uroce0", "other"}));
  EXPECT_TRUE(a.closed());
  FakeProgram back(service.path());
  EXPECT_EQ(back.attach_again(a).number, a.number());
  EXPECT_EQ(other.bind(1, 0).error, 0);
}

TEST(Reload, AnotherEndOfTheWire_ExpectBothEndsAnew) {
  ReloadableService service;
  FakeProgram a(service.path());
  a.attach();
  const auto end = device_at("end", "loopback1", 2);
  EXPECT_EQ(service.reload({first_device(), end}).error, 0);
  EXPECT_TRUE(a.closed());
  EXPECT_EQ(service.devices(), (Names{"uroce0", "end"}));
  FakeProgram b(service.path());
  b.attach(0, "end");
  EXPECT_EQ(service.reload({first_device()}).error, 0);
  EXPECT_TRUE(b.closed());
  EXPECT_EQ(service.devices(), Names{"uroce0"});
}

TEST(Reload, ByAProgramOfTheDeviceThatGoes) {
  ReloadableService service;
  ASSERT_EQ(service.reload({first_device(), device_at("more", "loopback2", 2)}).error, 0);
  FakeProgram a(service.path());
  a.attach(0, "more");
  service.set_next({first_device()});
  ASSERT_TRUE(a.send(hello(MessageType::kReload)));
  EXPECT_TRUE(a.closed());
  EXPECT_EQ(service.devices(), Names{"uroce0"});
}

}  // namespace
}  // namespace uroce::testing
