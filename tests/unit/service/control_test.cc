#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/number_blocks.h"
#include "net/gid_table.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

TEST(Control, ListsItsDevices) {
  RunningService service;
  FakeProgram program(service.path());
  ASSERT_TRUE(program.send(hello(MessageType::kList)));
  const auto device = program.receive();
  ASSERT_TRUE(device);
  EXPECT_EQ(device->message.type, MessageType::kDevice);
  EXPECT_EQ(host::text_of(device->message.name), "uroce0");
  EXPECT_EQ(device->message.mac, kDeviceMac);
  EXPECT_EQ(device->message.interface, 0u);
  EXPECT_NE(device->message.network, 0u);
  const auto address = program.receive();
  ASSERT_TRUE(address);
  EXPECT_EQ(address->message.type, MessageType::kAddressAdded);
  EXPECT_EQ(address->message.address, kDeviceAddress);
  const auto done = program.receive();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->message.type, MessageType::kDone);
  EXPECT_EQ(done->message.error, 0);
}

TEST(Control, AProgramAttaches) {
  RunningService service;
  FakeProgram program(service.path());
  const Message attached = program.attach();
  ASSERT_EQ(attached.type, MessageType::kAttached) << host::text_of(attached.text);
  EXPECT_EQ(attached.count, 1u << host::kBlockBits);
  EXPECT_EQ(attached.number % attached.count, 0u);
  EXPECT_NE(attached.number, 0u);
  EXPECT_EQ(attached.mac, kDeviceMac);
  EXPECT_EQ(attached.partition_keys_count, 1u);
  EXPECT_EQ(attached.partition_keys[0], 0xFFFF);
  EXPECT_TRUE(attached.up);
  const auto address = program.receive();
  ASSERT_TRUE(address);
  EXPECT_EQ(address->message.type, MessageType::kAddressAdded);
  EXPECT_EQ(address->message.address, kDeviceAddress);
  EXPECT_EQ(address->message.prefix_bits, 24);
  const auto programs = program.receive();
  ASSERT_TRUE(programs);
  EXPECT_EQ(programs->message.type, MessageType::kPrograms);
  EXPECT_EQ(programs->message.count, 1u);
}

TEST(Control, AnotherVersionIsRefused) {
  RunningService service;
  for (const MessageType type : {MessageType::kList, MessageType::kStatus, MessageType::kAttach}) {
    FakeProgram program(service.path());
    Message message = hello(type);
    message.version = host::kControlVersion + 1;
    const std::vector<int> memory{program.memory().descriptor()};
    const Message answer = program.ask(message, type == MessageType::kAttach ? memory : std::vector<int>());
    EXPECT_EQ(answer.error, EPROTONOSUPPORT);
  }
}

TEST(Control, ADeviceThatIsNotThereIsNamed) {
  RunningService service;
  FakeProgram program(service.path());
  Message message = hello(MessageType::kAttach);
  host::set_text(message.name, "other0");
  const Message answer = program.ask(message, {program.memory().descriptor()});
  EXPECT_EQ(answer.error, ENODEV);
  EXPECT_EQ(host::text_of(answer.text), "the service has no device other0");
  // Expect: the connection may still be used.
  EXPECT_EQ(program.attach().type, MessageType::kAttached);
}

TEST(Control, ProgramsAreIntroduced) {
  RunningService service;
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  a.attach();
  b.attach();
  ASSERT_TRUE(
      a.send({.type = MessageType::kIntroduce, .request = 77, .number = b.number() + 5, .channel = 3}));
  const auto introduction = b.receive(MessageType::kIntroduction);
  ASSERT_TRUE(introduction);
  EXPECT_EQ(introduction->message.number, a.number());
  EXPECT_EQ(introduction->message.channel, 3u);
  ASSERT_EQ(introduction->descriptors.size(), 1u);
  EXPECT_TRUE(host::map_sealed_memory(introduction->descriptors[0].get(), host::kProgramMemory));
  // A second question while the first is open is too many.
  EXPECT_EQ(a.ask({.type = MessageType::kIntroduce, .number = b.number(), .channel = 4}).error, EALREADY);
  ASSERT_TRUE(b.send({.type = MessageType::kFound, .request = introduction->message.request, .channel = 9}));
  const auto introduced = a.receive(MessageType::kIntroduced);
  ASSERT_TRUE(introduced);
  EXPECT_EQ(introduced->message.request, 77u);
  EXPECT_EQ(introduced->message.number, b.number());
  EXPECT_EQ(introduced->message.channel, 9u);
  EXPECT_EQ(introduced->descriptors.size(), 1u);
}

/// Two channels between two programs would be one too many: frames of the first one are lost when the second
/// replaces it. The question for another number may have been sent before the answer was read.
TEST(Control, AProgramIsIntroducedAgainOnlyAfterItHasConfirmed) {
  RunningService service;
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  a.attach();
  b.attach();
  const auto ask = [&](uint32_t request) {
    return a.send(
        {.type = MessageType::kIntroduce, .request = request, .number = b.number(), .channel = request});
  };
  ASSERT_TRUE(ask(1));
  const auto introduction = b.receive(MessageType::kIntroduction);
  ASSERT_TRUE(introduction);
  ASSERT_TRUE(b.send({.type = MessageType::kFound, .request = introduction->message.request, .channel = 9}));
  ASSERT_TRUE(a.receive(MessageType::kIntroduced));
  // Before it confirms, from either side.
  EXPECT_EQ(a.ask({.type = MessageType::kIntroduce, .number = b.number(), .channel = 2}).error, EALREADY);
  EXPECT_EQ(b.ask({.type = MessageType::kIntroduce, .number = a.number(), .channel = 2}).error, EALREADY);
  // Confirm what was not asked, and what was.
  ASSERT_TRUE(a.send({.type = MessageType::kConfirm, .request = 7}));
  EXPECT_EQ(a.ask({.type = MessageType::kIntroduce, .number = b.number(), .channel = 2}).error, EALREADY);
  ASSERT_TRUE(a.send({.type = MessageType::kConfirm, .request = 1}));
  ASSERT_TRUE(ask(3));
  EXPECT_TRUE(b.receive(MessageType::kIntroduction));
}

TEST(Control, IntroductionsThatFail) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  EXPECT_EQ(a.ask({.type = MessageType::kIntroduce, .number = a.number(), .channel = 1}).error, EINVAL);
  EXPECT_EQ(a.ask({.type = MessageType::kIntroduce, .number = 5, .channel = 1}).error, ESRCH);
  FakeProgram b(service.path());
  b.attach();
  // Receive a refusal.
  ASSERT_TRUE(a.send({.type = MessageType::kIntroduce, .request = 50, .number = b.number(), .channel = 1}));
  const auto introduction = b.receive(MessageType::kIntroduction);
  ASSERT_TRUE(introduction);
  ASSERT_TRUE(
      b.send({.type = MessageType::kFound, .request = introduction->message.request, .error = ENOSPC}));
  const auto refused = a.receive(MessageType::kDone);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message.request, 50u);
  EXPECT_EQ(refused->message.error, ECONNREFUSED);
  // Receive the end of the program that was asked.
  {
    FakeProgram c(service.path());
    c.attach();
    ASSERT_TRUE(a.send({.type = MessageType::kIntroduce, .request = 51, .number = c.number(), .channel = 1}));
    ASSERT_TRUE(c.receive(MessageType::kIntroduction));
  }
  const auto lost = a.receive(MessageType::kDone);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->message.request, 51u);
  EXPECT_EQ(lost->message.error, ESRCH);
}

TEST(Control, OthersHearOfAProgramsEnd) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  uint32_t number = 0;
  {
    FakeProgram b(service.path());
    b.attach();
    number = b.number();
  }
  const auto gone = a.receive(MessageType::kGone);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->message.number, number);
  EXPECT_EQ(gone->message.count, 1u << host::kBlockBits);
  const auto programs = a.receive(MessageType::kPrograms);
  ASSERT_TRUE(programs);
  EXPECT_EQ(programs->message.count, 1u);
}

TEST(Control, PortsAreOneSpace) {
  RunningService service;
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  a.attach();
  b.attach();
  EXPECT_EQ(a.bind(1, 7471).port, 7471);
  EXPECT_EQ(b.bind(1, 7471).error, EADDRINUSE);
  EXPECT_EQ(a.bind(1, 7472).error, EINVAL);
  EXPECT_EQ(a.ask({.type = MessageType::kListen, .id = 1}).error, 0);
  EXPECT_EQ(b.ask({.type = MessageType::kListen, .id = 1}).error, EINVAL);
  EXPECT_EQ(b.bind(2, 0, host::kBindFamilyOnly, Gid::from_ipv4({10, 0, 0, 1})).error, EADDRNOTAVAIL);
  EXPECT_EQ(b.bind(2, 0, host::kBindIpv6, kDeviceAddress).error, EINVAL);
  EXPECT_GE(b.bind(2, 0, host::kBindFamilyOnly, kDeviceAddress).port, 32768);
  const Gid link_local = net::GidTable(kDeviceMac, {}).at(0);
  EXPECT_GE(b.bind(3, 0, host::kBindFamilyOnly | host::kBindIpv6, link_local).port, 32768);
  // Receive the release. Expect: free for the other.
  ASSERT_TRUE(a.send({.type = MessageType::kRelease, .id = 1}));
  EXPECT_EQ(a.bind(3, 0).error, 0);
  EXPECT_EQ(b.bind(4, 7471).port, 7471);
}

TEST(Control, ThePortsOfAnEndedProgramAreFree) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  {
    FakeProgram b(service.path());
    b.attach();
    EXPECT_EQ(b.bind(1, 7471).port, 7471);
  }
  ASSERT_TRUE(a.receive(MessageType::kGone));
  EXPECT_EQ(a.bind(1, 7471).port, 7471);
}

TEST(Control, WaysAndGroups) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  const Message source = a.ask({.type = MessageType::kSourceTo, .address = kPeerAddress});
  EXPECT_EQ(source.type, MessageType::kSource);
  EXPECT_EQ(source.address, kDeviceAddress);
  EXPECT_EQ(a.ask({.type = MessageType::kSourceTo, .address = Gid::from_ipv4({10, 0, 0, 1})}).error,
            ENETUNREACH);
  // Our own is known at once, one elsewhere is not reached, and nothing answers for the peer.
  for (const auto& [address, error] : {std::pair(kDeviceAddress, 0),
                                       {Gid::from_ipv4({10, 0, 0, 1}), EHOSTUNREACH},
                                       {kPeerAddress, ETIMEDOUT}}) {
    ASSERT_TRUE(a.send({.type = MessageType::kResolve, .address = address}));
    const auto resolved = a.receive(MessageType::kResolved);
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->message.address, address);
    EXPECT_EQ(resolved->message.error, error);
    if (error == 0) {
      EXPECT_EQ(resolved->message.mac, kDeviceMac);
    }
  }
  const Gid group = Gid::from_ipv4({239, 1, 2, 3});
  EXPECT_EQ(a.ask({.type = MessageType::kJoin, .address = kPeerAddress}).error, EINVAL);
  EXPECT_EQ(a.ask({.type = MessageType::kLeave, .address = group}).error, EINVAL);
  EXPECT_EQ(a.ask({.type = MessageType::kJoin, .address = group}).error, 0);
  EXPECT_EQ(a.ask({.type = MessageType::kLeave, .address = group}).error, 0);
}

TEST(Control, ReportsItsStatus) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  FakeProgram visitor(service.path());
  const auto status = nlohmann::json::parse(visitor.status());
  EXPECT_EQ(status["programs"], 1);
  const auto& device = status["devices"][0];
  EXPECT_EQ(device["name"], "uroce0");
  EXPECT_EQ(device["addresses"][0], "192.0.2.1/24");
  const auto& program = device["programs"][0];
  EXPECT_EQ(program["pid"], getpid());
  EXPECT_EQ(program["name"], R"(fake \x1b program)");
  EXPECT_EQ(program["numbers"]["first"], a.number());
}

TEST(Control, AddressesFollowTheDevice) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  ASSERT_TRUE(a.receive(MessageType::kPrograms));
  const Gid address = Gid::from_ipv4({192, 0, 2, 77});
  ASSERT_EQ(service.device()->add_address({.address = address, .prefix_bits = 24}), 0);
  const auto added = a.receive();
  ASSERT_TRUE(added);
  EXPECT_EQ(added->message.type, MessageType::kAddressAdded);
  EXPECT_EQ(added->message.address, address);
  ASSERT_EQ(service.device()->remove_address(address), 0);
  const auto removed = a.receive();
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->message.type, MessageType::kAddressRemoved);
  EXPECT_EQ(removed->message.address, address);
}

TEST(Control, AProgramThatReadsNothingHearsTheLatestState) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  ASSERT_TRUE(a.receive(MessageType::kPrograms));
  // Receive many programs, and requests whose answers fill the socket.
  constexpr int kPrograms = 300;
  for (uint32_t i = 0; i < 2000; ++i) {
    const Message listen{.type = MessageType::kListen, .request = 1'000'000 + i, .id = 1};
    send(a.socket(), &listen, sizeof listen, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  std::set<uint32_t> numbers;
  for (int i = 0; i < kPrograms; ++i) {
    FakeProgram other(service.path());
    other.attach();
    numbers.insert(other.number());
  }
  // Expect: it hears of each end, and that it is alone.
  uint32_t programs = 1;  // as it was told at first
  std::set<uint32_t> gone;
  while (gone.size() < numbers.size() || programs != 1) {
    const auto message = a.receive();
    ASSERT_TRUE(message);
    if (message->message.type == MessageType::kGone) gone.insert(message->message.number);
    if (message->message.type == MessageType::kPrograms) programs = message->message.count;
  }
  EXPECT_EQ(gone, numbers);
  EXPECT_EQ(a.bind(1, 0).error, 0);
}

TEST(Control, WhenNumbersAreShortAProgramGetsFewer) {
  RunningService service({.quotas = {.numbers_per_program = 1u << 22, .numbers_per_user = 1u << 24}});
  std::vector<std::unique_ptr<FakeProgram>> programs;
  uint32_t last = 1u << 22;
  while (last > 1u << host::kBlockBits) {
    programs.push_back(std::make_unique<FakeProgram>(service.path()));
    const Message attached = programs.back()->attach(1u << 22);
    ASSERT_EQ(attached.type, MessageType::kAttached);
    EXPECT_LE(attached.count, last);
    last = attached.count;
  }
  EXPECT_LT(programs.size(), 100u);
  EXPECT_EQ(last, 1u << host::kBlockBits);
}

TEST(Control, EndsWhenItWasIdleForLong) {
  RunningService service({.idle_exit_s = 0});
  EXPECT_TRUE(service.ends());
}

}  // namespace
}  // namespace uroce::testing
