// Queue pair numbers over the end of a service: which program has them again from the next one.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>

#include "tests/unit/service/as_stranger.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr uint32_t kBlock = 1u << host::kBlockBits;

struct Numbers : ::testing::Test {
  [[nodiscard]] const std::string& path() const { return service->path(); }
  /// The service ends, and another one begins.
  void restart() {
    service.reset();
    service.emplace();
  }
  std::optional<RunningService> service{std::in_place};
};

TEST_F(Numbers, TheNextServiceGivesBackWhatTheFormerGave) {
  FakeProgram a(path());
  ASSERT_EQ(a.attach().type, MessageType::kAttached);
  restart();
  FakeProgram again(path());
  EXPECT_EQ(again.attach_again(a).number, a.number());
  // Expect: what it has now counts as well.
  FakeProgram other(path());
  EXPECT_EQ(other.attach_again(again).error, EEXIST) << "in use";
}

TEST_F(Numbers, OfAProgramThatHasEnded_ExpectARefusal) {
  FakeProgram observer(path());
  observer.attach();
  std::optional<FakeProgram> a(path());
  a->attach();
  const NumberBlock held{a->number(), kBlock};
  const Descriptor granted(dup(a->granted()));
  a.reset();
  ASSERT_TRUE(observer.receive(MessageType::kGone));
  EXPECT_EQ(FakeProgram(path()).attach_again(held, granted.get()).error, EPERM);
  restart();
  EXPECT_EQ(FakeProgram(path()).attach_again(held, granted.get()).error, EPERM);
}

TEST_F(Numbers, OthersThanWereGiven_ExpectARefusal) {
  FakeProgram a(path());
  a.attach();
  restart();
  for (const NumberBlock claimed :
       {NumberBlock{a.number() + kBlock, kBlock}, NumberBlock{a.number() + 1, kBlock},
        NumberBlock{a.number(), 2 * kBlock}, NumberBlock{0xFFF000, kBlock}, NumberBlock{a.number(), 0}})
    EXPECT_EQ(FakeProgram(path()).attach_again(claimed, a.granted()).error, EPERM);
}

TEST_F(Numbers, WithoutWhatShowsThem_ExpectTheEndOfTheConnection) {
  FakeProgram a(path());
  Message request = hello(MessageType::kAttach);
  request.number = 0x123000;
  request.count = kBlock;
  ASSERT_TRUE(a.send(request, {a.memory().descriptor()}));
  EXPECT_TRUE(a.closed());
}

TEST_F(Numbers, ShownByOtherMemory_ExpectARefusal) {
  FakeProgram a(path());
  a.attach();
  restart();
  const NumberBlock held{a.number(), kBlock};
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  FakeProgram program(path());
  for (const int shown : {null.get(), empty.get(), program.memory().descriptor()})
    EXPECT_EQ(FakeProgram(path()).attach_again(held, shown).error, EPERM);
}

/// Memory as a service makes it, which says what a service would say.
host::SealedMemory forged(NumberBlock block, uid_t user) {
  auto memory = host::make_sealed_memory("forged", host::MemoryLayout(host::kServiceMemory).bytes());
  EXPECT_TRUE(memory);
  const host::OwnMemory own(memory->mapping.data(), host::kServiceMemory);
  host::Grant& grant = own.layout().grant(memory->mapping.data());
  grant.first = block.first;
  grant.count = block.count;
  grant.user = user;
  grant.valid.store(1);
  return std::move(*memory);
}

TEST_F(Numbers, ForgedByAnotherUser_ExpectARefusal) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can be another user";
  const NumberBlock block{0x123000, kBlock};
  std::optional<host::SealedMemory> memory;
  {
    const AsStranger other;
    memory = forged(block, 0);
  }
  EXPECT_EQ(FakeProgram(path()).attach_again(block, memory->descriptor.get()).error, EPERM);
  // Expect: the same of our own is believed, so it was refused for its maker.
  memory = forged(block, 0);
  EXPECT_EQ(FakeProgram(path()).attach_again(block, memory->descriptor.get()).number, block.first);
}

TEST_F(Numbers, ShownByAnotherUser_ExpectARefusal) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can be another user";
  const NumberBlock block{0x123000, kBlock};
  const host::SealedMemory memory = forged(block, AsStranger::kUser);
  EXPECT_EQ(FakeProgram(path()).attach_again(block, memory.descriptor.get()).error, EPERM);
}

}  // namespace
}  // namespace uroce::testing
