// Namespaces that come and go, and queues that end with commands under way.
#include <array>
#include <optional>

#include "disks.h"
#include "tests/block/power_cut.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

class Life : public Disks {
 protected:
  std::shared_ptr<DeviceScript> disk = add(1);
  Host host{target};
};

TEST_F(Life, NamespaceComes) {
  HostQueue& io = host.io();
  expect_refused(io.run(command::blocks(command::kRead, 2, 0, 1)), StatusCode::kInvalidField);
  const auto added = add(2);
  EXPECT_TRUE(io.run(command::blocks(command::kRead, 2, 0, 1)).ok());
  EXPECT_EQ(added->queues, 1u);
}

TEST_F(Life, NamespaceGoesWhenItsCommandsHaveEnded) {
  HostQueue& io = host.io();
  HostQueue& idle = host.io(2);
  ASSERT_TRUE(idle.run(command::blocks(command::kRead, 1, 0, 1)).ok());
  disk->hold = true;
  const uint16_t under_way = io.send(command::blocks(command::kWrite, 1, 0, 1), Bytes(512));
  const uint16_t staged = io.receive(command::blocks(command::kWrite, 1, 1, 1), Bytes(512));
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 1).ok());
  io.poll();
  idle.poll();
  EXPECT_EQ(disk->queues, 1u);  // of the queue that uses it
  expect_refused(*io.answer(io.send(command::blocks(command::kRead, 1, 0, 1))), StatusCode::kInvalidField);
  EXPECT_EQ(target.collect(), 1u);
  disk->hold = false;
  EXPECT_TRUE(io.answer(under_way)->ok());
  io.poll();
  EXPECT_EQ(target.collect(), 1u);
  io.execute(staged);
  EXPECT_TRUE(io.answer(staged)->ok());
  io.poll();
  EXPECT_EQ(disk->queues, 0u);
  EXPECT_FALSE(disk->destroyed);
  EXPECT_EQ(target.collect(), 0u);
  EXPECT_TRUE(disk->destroyed);
}

TEST_F(Life, AnotherNamespaceUnderTheSameNumber) {
  HostQueue& io = host.io();
  ASSERT_TRUE(io.run(command::blocks(command::kWrite, 1, 0, 1), pattern(512, 1)).ok());
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 1).ok());
  const auto another = add(1, {.blocks = 8});
  io.poll();
  EXPECT_EQ(io.run(command::blocks(command::kRead, 1, 0, 1)).data, Bytes(512));
  expect_refused(io.run(command::blocks(command::kRead, 1, 8, 1)), StatusCode::kLbaOutOfRange);
  EXPECT_EQ(disk->queues, 0u);
  EXPECT_EQ(another->queues, 1u);
}

TEST_F(Life, QueueEndsWithCommandsEverywhere) {
  HostQueue& io = host.io();
  disk->hold = true;
  io.send(command::blocks(command::kWrite, 1, 0, 1), Bytes(512));
  io.send(command::blocks(command::kVerify, 1, 0, 256));
  io.send(command::blocks(command::kVerify, 1, 0, 256));  // waits for memory
  disk->refusals = 1;
  io.send(command::blocks(command::kWrite, 1, 1, 1), Bytes(512));  // waits for the device
  io.receive(command::blocks(command::kWrite, 1, 2, 1));           // in the transport
  io.send(command::fused(command::blocks(command::kCompare, 1, 3, 1), Command::Fuse::kFirst), Bytes(512));
  EXPECT_FALSE(io.drain(3));
  EXPECT_EQ(disk->count(Operation::kWrite), 1u);
  EXPECT_EQ(host.status(), 1u);
  disk->hold = false;
  EXPECT_TRUE(io.drain());
  EXPECT_EQ(disk->count(Operation::kWrite), 1u);
}

TEST_F(Life, FusedPairWithOneHalfInTheTransport) {
  for (const bool first_executed : {true, false}) {
    HostQueue& io = host.io(first_executed ? 1 : 2);
    const uint16_t first = io.receive(
        command::fused(command::blocks(command::kCompare, 1, 3, 1), Command::Fuse::kFirst), Bytes(512));
    const uint16_t second = io.receive(
        command::fused(command::blocks(command::kWrite, 1, 3, 1), Command::Fuse::kSecond), Bytes(512));
    io.execute(first_executed ? first : second);
    EXPECT_TRUE(io.drain());
  }
  EXPECT_TRUE(disk->seen.empty());
}

TEST_F(Life, FlushOfAllThatIsCutShort) {
  const auto second = add(2);
  HostQueue& io = host.io();
  disk->hold = true;
  second->refusals = 1;
  io.send(command::make(command::kFlush, kAllNamespaces));
  EXPECT_FALSE(io.drain(3));
  disk->hold = false;
  EXPECT_TRUE(io.drain());
  EXPECT_EQ(second->count(Operation::kFlush), 0u);
}

TEST_F(Life, AdminQueueTakesItsControllerAlong) {
  HostQueue& io = host.io();
  host.admin.send(command::make(command::kAsyncEventRequest));
  EXPECT_TRUE(host.admin.drain());
  EXPECT_TRUE(io.queue().ending());
  HostQueue late(target, {.entries = 32});
  const Answer answer =
      late.run(command::connect(2, 31), bytes_of(connect_data(kSubsystem, kHost, host.controller)));
  EXPECT_EQ(answer.code, StatusCode::kConnectInvalidParameters);
}

TEST_F(Life, ResetWithCommandsUnderWay) {
  HostQueue& io = host.io();
  disk->hold = true;
  io.send(command::blocks(command::kWrite, 1, 0, 1), Bytes(512));
  host.set_configuration(0);
  EXPECT_TRUE(io.queue().ending());
  EXPECT_EQ(io.run(command::blocks(command::kRead, 1, 0, 1)).code, StatusCode::kAbortedQueueDeleted);
  EXPECT_FALSE(io.drain(3));
  EXPECT_EQ(host.status(), 1u);
  disk->hold = false;
  EXPECT_TRUE(io.drain());
  EXPECT_EQ(host.status(), 0u);
}

TEST_F(Life, RemovedSubsystemIsDestroyedByCollect) {
  {
    Host second(target);
    HostQueue& io = second.io();
    ASSERT_TRUE(io.run(command::blocks(command::kRead, 1, 0, 1)).ok());
    ASSERT_TRUE(host.admin.drain());
    ASSERT_TRUE(target.remove_subsystem(kSubsystem).ok());
    EXPECT_EQ(target.collect(), 1u);
  }
  EXPECT_FALSE(disk->destroyed);
}

/// What was acknowledged as durable is there after a loss of power, whatever else is.
class PowerLoss : public Disks, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(PowerLoss, KeepsWhatWasFlushed) {
  constexpr uint32_t kBlocks = 64;
  auto owned =
      std::make_unique<PowerCutDevice>(PowerCutDevice::Options{.blocks = kBlocks, .seed = GetParam()});
  PowerCutDevice& device = *owned;
  NamespaceOptions options;
  options.device = std::move(owned);
  ASSERT_TRUE(target.add_namespace(kSubsystem, std::move(options)).ok());
  Random random(GetParam());
  std::array<std::optional<uint8_t>, kBlocks> durable{}, written{};
  {
    Host host(target);
    HostQueue& io = host.io();
    for (int i = 0; i < 200; ++i) {
      const auto block = static_cast<uint32_t>(random.below(kBlocks));
      const auto value = static_cast<uint8_t>(i);
      Command write = command::blocks(command::kWrite, 1, block, 1);
      const bool forced = random.below(4) == 0;
      if (forced) write.dword12 |= command::kForceUnitAccess;
      ASSERT_TRUE(io.run(write, Bytes(512, std::byte{value})).ok());
      written[block] = value;
      durable[block] = forced ? written[block] : std::nullopt;
      if (random.below(32) != 0) continue;
      ASSERT_TRUE(io.run(command::make(command::kFlush, random.below(2) == 0 ? 1 : kAllNamespaces)).ok());
      durable = written;
    }
    device.cut(PowerCutDevice::Survivors::kNone);
    EXPECT_EQ(io.run(command::blocks(command::kRead, 1, 0, 1)).code, StatusCode::kNamespaceNotReady);
  }
  Host host(target);
  HostQueue& io = host.io();
  uint32_t checked = 0;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    if (!durable[block]) continue;
    EXPECT_EQ(io.run(command::blocks(command::kRead, 1, block, 1)).data,
              Bytes(512, std::byte{*durable[block]}));
    ++checked;
  }
  EXPECT_GT(checked, 4u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerLoss, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace uroce::nvmf
