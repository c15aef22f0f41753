#include <cerrno>
#include <cstring>

#include "base/values/random.h"
#include "tests/support/packet.h"
#include "tests/unit/service/running_service.h"
#include "tests/unit/service/switch_fixture.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

TEST(Hostile, DatagramsOfEveryLength) {
  RunningService service;
  std::vector<std::byte> bytes(sizeof(Message) + 64, std::byte{0xA5});
  for (size_t length = 1; length <= bytes.size(); length += length < 8 ? 1 : 61) {
    FakeProgram program(service.path());
    ASSERT_TRUE(send_packet(program.socket(), std::span(bytes).first(length), {}));
    EXPECT_TRUE(program.closed()) << length;
  }
  FakeProgram program(service.path());
  EXPECT_EQ(program.attach().type, MessageType::kAttached);
}

TEST(Hostile, MessagesThatDoNotBelong) {
  RunningService service;
  // Before it is attached a program may only say hello.
  for (auto type = static_cast<uint32_t>(MessageType::kDone);
       type <= static_cast<uint32_t>(MessageType::kLast); ++type) {
    FakeProgram program(service.path());
    ASSERT_TRUE(program.send(hello(static_cast<MessageType>(type))));
    const auto answer = program.receive();
    ASSERT_TRUE(answer) << type;
    EXPECT_EQ(answer->message.error, EPROTO) << type;
    EXPECT_TRUE(program.closed());
  }
  // Afterwards it may say neither hello again nor what only the service says.
  for (const MessageType type :
       {MessageType::kDone, MessageType::kAttached, MessageType::kIntroduction, MessageType::kGone,
        MessageType::kOwner, MessageType::kLink, MessageType::kPrograms}) {
    FakeProgram program(service.path());
    program.attach();
    ASSERT_TRUE(program.send(hello(type)));
    EXPECT_TRUE(program.closed());
  }
  FakeProgram program(service.path());
  program.attach();
  ASSERT_TRUE(program.send(hello(MessageType::kAttach), {program.memory().descriptor()}));
  EXPECT_TRUE(program.closed());
}

TEST(Hostile, ChannelsThatThereCannotBe) {
  RunningService service;
  FakeProgram honest(service.path());
  honest.attach();
  for (const uint32_t channel : {0u, 512u, UINT32_MAX}) {
    FakeProgram a(service.path());
    FakeProgram b(service.path());
    a.attach();
    b.attach();
    ASSERT_TRUE(honest.send({.type = MessageType::kIntroduce, .number = b.number(), .channel = 1}));
    const auto introduction = b.receive(MessageType::kIntroduction);
    ASSERT_TRUE(introduction);
    ASSERT_TRUE(a.send({.type = MessageType::kIntroduce, .number = b.number(), .channel = channel}));
    EXPECT_TRUE(a.closed());
    ASSERT_TRUE(
        b.send({.type = MessageType::kFound, .request = introduction->message.request, .channel = channel}));
    EXPECT_TRUE(b.closed());
    const auto failed = honest.receive(MessageType::kDone);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->message.error, ESRCH);
  }
}

TEST(Hostile, AnswersToQuestionsOfOthers) {
  RunningService service;
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  FakeProgram c(service.path());
  for (FakeProgram* program : {&a, &b, &c}) program->attach();
  ASSERT_TRUE(a.send({.type = MessageType::kIntroduce, .request = 5, .number = b.number(), .channel = 1}));
  const auto introduction = b.receive(MessageType::kIntroduction);
  ASSERT_TRUE(introduction);
  ASSERT_TRUE(c.send({.type = MessageType::kFound, .request = introduction->message.request, .channel = 2}));
  EXPECT_EQ(c.bind(1, 0).error, 0);  // it was handled
  ASSERT_TRUE(b.send({.type = MessageType::kFound, .request = introduction->message.request, .channel = 3}));
  const auto introduced = a.receive(MessageType::kIntroduced);
  ASSERT_TRUE(introduced);
  EXPECT_EQ(introduced->message.number, b.number());
  EXPECT_EQ(introduced->message.channel, 3u);
}

Message random_message(Random& random) {
  Message message;
  std::array<std::byte, sizeof message> bytes;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  std::memcpy(&message, bytes.data(), sizeof message);
  message.type = static_cast<MessageType>(random.below(static_cast<uint64_t>(MessageType::kLast) + 2));
  message.name.back() = message.text.back() = 0;
  message.partition_keys_count = static_cast<uint16_t>(random.below(17));
  if (random.chance(3, 4)) message.version = host::kControlVersion;
  if (random.chance(1, 2)) message.name[0] = 0;
  if (random.chance(1, 2)) message.number = static_cast<uint32_t>(random.below(1 << 24));
  if (random.chance(1, 2)) message.number = 0;
  if (random.chance(1, 2)) message.count = static_cast<uint32_t>(random.below(1 << 17));
  if (random.chance(1, 2)) message.channel = static_cast<uint32_t>(random.below(512));
  if (random.chance(1, 2)) message.address = random.chance(1, 2) ? kDeviceAddress : Gid{};
  return message;
}

TEST(Hostile, RandomConversations) {
  const uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Random random(seed);
  RunningService service;
  FakeProgram honest(service.path());
  ASSERT_EQ(honest.attach().type, MessageType::kAttached);
  for (int i = 0; i < 200; ++i) {
    FakeProgram program(service.path());
    if (random.chance(2, 3)) program.attach();
    for (int j = 0; j < 20; ++j) {
      const Message message = random_message(random);
      const bool memory = random.chance(message.type == MessageType::kAttach ? 9 : 1, 10);
      if (!program.send(message,
                        memory ? std::vector<int>{program.memory().descriptor()} : std::vector<int>()))
        break;
    }
  }
  EXPECT_EQ(honest.bind(1, 0).error, 0);
}

/// Words that a program writes anywhere into its memory, at frames that look right and at others.
TEST_F(SwitchTest, RandomMemory) {
  const uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Random random(seed);
  const auto honest = make(1, 5);
  constexpr host::MemoryLayout kLayout(host::kProgramMemory);
  for (int round = 0; round < 300; ++round) {
    const auto hostile = make(2, 6);
    std::byte* const memory = hostile->memory.bytes().data();
    auto* const ring = kLayout.ring(memory, 0);
    for (int step = 0; step < 40; ++step) {
      const std::vector<Bytes> frames{rc_frame(to_self(), honest->number(1)), rc_frame(to_peer(), {9}),
                                      cm_frame(to_self(), wire::CmReq{.local = hostile->comm_id(1)}),
                                      cm_frame(to_peer(), wire::CmRtu{.local = hostile->comm_id(2)})};
      Bytes frame = frames[random.below(frames.size())];
      for (uint64_t left = random.below(4); left > 0; --left)
        frame[random.below(frame.size())] = static_cast<std::byte>(random.next());
      std::ranges::copy(
          frame, kLayout.frame(memory, static_cast<uint32_t>(random.below(host::kProgramMemory.frames))));
      const host::FrameDescriptor descriptor{
          .frame = static_cast<uint16_t>(random.below(host::kProgramMemory.frames)),
          .length = static_cast<uint16_t>(random.below(host::kFrameBytes)),
          .has_icrc = random.chance(1, 2),
          .sequence = static_cast<uint32_t>(step) + 1};
      const bool wild = random.chance(1, 20);
      ring[static_cast<size_t>(step) % host::kRingFrames].store(wild ? random.next() : descriptor.pack());
      if (random.chance(1, 10))
        kLayout.consumed(memory, 0).count.store(static_cast<uint32_t>(random.below(1000)));
      kLayout.bell(memory).word.store(static_cast<uint32_t>(random.below(2)));
      deliver(rc_frame(from_peer(), hostile->number(3)));
      now_ = now_ + milliseconds(5);
      collect();
      outbox_.take();
    }
    honest->memory.send(rc_frame(to_peer(), {9}));
    collect();
    EXPECT_EQ(outbox_.take().size(), 1u);
    switch_.remove(*hostile->attachment);
    while (honest->memory.receive()) continue;
  }
}

}  // namespace
}  // namespace uroce::testing
