// A device of a service that says whatever it likes.
#include <gtest/gtest.h>

#include "engine/device/stack.h"
#include "tests/support/soon.h"
#include "tests/unit/host/fake_service.h"
#include "tests/unit/host/random_messages.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

/// A device of a fake service.
struct SharedDevice {
  SharedDevice() {
    engine::Configuration configuration;
    configuration.hugepages = false;
    configuration.devices.emplace_back().port = "host,socket=" + service.path();
    auto created = engine::Stack::create(configuration);
    EXPECT_TRUE(created) << (created ? "" : created.error().message);
    stack = std::move(*created);
    auto opened = stack->open(0);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    device = std::move(*opened);
    conversation = service.take();
  }
  [[nodiscard]] host::SharedDevice& shared() const { return *device->shared_device(); }

  FakeService service{attach_and_leave};
  std::unique_ptr<Conversation> conversation;
  std::unique_ptr<engine::Stack> stack;
  std::shared_ptr<engine::Device> device;
};

TEST(DeviceOfService, FollowsTheServicesLinkAndAddresses) {
  SharedDevice one;
  EXPECT_EQ(one.device->mac(), kGivenMac);
  EXPECT_EQ(one.device->numbers(), kGivenNumbers);
  EXPECT_EQ(one.device->path_mtu_max(), PathMtu::k4096);
  EXPECT_TRUE(one.device->gids().owns(kGivenAddress));
  ASSERT_TRUE(one.conversation->send({.type = MessageType::kLink, .mtu = 1500, .up = 1}));
  EXPECT_TRUE(soon([&] { return one.device->path_mtu_max() == PathMtu::k1024; }));
  const Gid another = Gid::from_ipv4({192, 0, 2, 9});
  ASSERT_TRUE(one.conversation->send(address_message(another)));
  EXPECT_TRUE(soon([&] { return one.device->gids().owns(another); }));
  ASSERT_TRUE(one.conversation->send({.type = MessageType::kAddressRemoved, .address = another}));
  EXPECT_TRUE(soon([&] { return !one.device->gids().owns(another); }));
  ASSERT_TRUE(one.conversation->send({.type = MessageType::kLink, .mtu = 0, .up = 0}));
  EXPECT_TRUE(soon([&] { return !one.device->link_up(); }));
}

/// Answers each request, and says other things besides.
void say_anything(Conversation& conversation, Random& random, int program_memory) {
  while (const auto received = conversation.receive()) {
    for (uint64_t left = random.below(8); left > 0; --left) {
      const Message message = random_message(random);
      conversation.send(message, random_descriptors(random, conversation, program_memory));
    }
    Message answer = random_message(random);
    answer.type = random.chance(1, 2) ? MessageType::kDone : MessageType::kSource;
    answer.request = received->message.request;
    conversation.send(answer);
  }
}

TEST(DeviceOfService, RandomMessages) {
  const uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Random random(seed);
  const size_t descriptors = open_descriptors();
  for (int round = 0; round < 10; ++round) {
    SharedDevice one;
    const SharedFrames other(host::kProgramMemory);
    Random its(random.next());
    std::thread service([&] { say_anything(*one.conversation, its, other.descriptor()); });
    for (uint64_t step = 0; step < 100; ++step) {
      const Gid address = Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(random.next())});
      one.shared().resolve({address, static_cast<uint16_t>(random.below(3))});
      (void)one.shared().bind(step, {.address = address});
      (void)one.shared().listen(step);
      one.shared().release(step);
      (void)one.shared().source_to(address);
      (void)one.device->path_mtu_max();
      EXPECT_GE(one.device->gids().size(), 1u);
    }
    one.device.reset();
    service.join();
  }
  EXPECT_TRUE(soon([&] { return open_descriptors() == descriptors; }));
}

}  // namespace
}  // namespace uroce::testing
