// DMA devices of DPDK as copy engines: its dma_skeleton, whose engine is a thread. A program of its own,
// because EAL starts once in a process.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "connected_pair.h"
#include "loopback.h"
#include "mem/regions/hugepage_arena.h"

namespace uroce::engine {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;

constexpr uint32_t kBytesMax = 1 << 20;

Configuration with_engines(PollerMode mode) {
  Configuration configuration = embedded_pair();
  configuration.poller_mode = mode;
  configuration.hugepages = false;
  configuration.devices[0].dmadev = {"dma_skeleton0"};
  configuration.devices[1].dmadev = {"dma_skeleton1"};
  return configuration;
}

/// What urocedv_alloc_memory gives, in a side's domain.
class Memory {
 public:
  explicit Memory(Side& side) : arena_(side.device().regions(), side.domain()) {
    const auto block = arena_.allocate(
        {.bytes = kBytesMax, .access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead});
    EXPECT_TRUE(block);
    if (block) block_ = *block;
  }
  ~Memory() {
    EXPECT_TRUE(arena_.free(block_.address));
    EXPECT_TRUE(arena_.end());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return block_.address; }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(block_.address); }
  [[nodiscard]] MemoryKey key() const { return block_.keys.rkey; }
  [[nodiscard]] queue::Segment part(uint32_t length) const { return {address(), length, block_.keys.lkey}; }

 private:
  mem::HugepageArena arena_;
  mem::HugepageArena::Block block_;
};

class Dmadev : public ::testing::TestWithParam<PollerMode> {
 protected:
  Dmadev() { EXPECT_EQ(connect_pair(left, right), 0); }
  [[nodiscard]] queue::Segment buffer_of(Side& side, uint32_t length) const {
    return {side.address(), length, side.lkey()};
  }

  const Loopback loopback{with_engines(GetParam())};
  Side left{loopback.devices.at(0), kBytesMax};
  Side right{loopback.devices.at(1), kBytesMax};
};

TEST_P(Dmadev, MessagesOfAllSizes_ExpectThemWholeAndCopiedByTheDevices) {
  Memory at_left(left);
  Memory at_right(right);
  uint64_t bodies = 0;
  for (const uint32_t length : {1u, 64u, 1000u, 1024u, 1025u, 1500u, 4096u, 65'536u, 100'001u, kBytesMax}) {
    SCOPED_TRACE(length);
    fill(left.buffer(), length);
    left.post({{SendOperation::kWrite, buffer_of(left, length), at_right.address(), at_right.key()}});
    ASSERT_EQ(left.wait().status, CompletionStatus::kSuccess);
    EXPECT_EQ(std::memcmp(at_right.data(), left.buffer().data(), length), 0);

    std::memset(at_right.data(), 0, length);
    right.receive({at_right.part(length)}, 1);
    left.post({{SendOperation::kSend, buffer_of(left, length)}});
    ASSERT_EQ(left.wait().status, CompletionStatus::kSuccess);
    ASSERT_EQ(right.wait().status, CompletionStatus::kSuccess);
    EXPECT_EQ(std::memcmp(at_right.data(), left.buffer().data(), length), 0);

    fill(right.buffer(), length + 1);
    left.post({{SendOperation::kRead, at_left.part(length), right.address(), right.rkey()}});
    ASSERT_EQ(left.wait().status, CompletionStatus::kSuccess);
    EXPECT_EQ(std::memcmp(at_left.data(), right.buffer().data(), length), 0);
    bodies += (length - 1) / 1024;  // packets of path MTU 1024, the last one only but for its tail
  }
  EXPECT_GE(left.device().counter(Counter::kEngineCopies), bodies);
  EXPECT_GE(right.device().counter(Counter::kEngineCopies), 2 * bodies);
  for (const Side* side : {&left, &right}) EXPECT_EQ(side->device().counter(Counter::kEngineFailed), 0u);
}

TEST_P(Dmadev, ManyMessagesAtOnce_ExpectEachInItsPlace) {
  Memory target(right);
  constexpr uint32_t kMessage = 5000;
  constexpr uint32_t kAtOnce = 32;
  for (uint64_t round = 0; round < 20; ++round) {
    fill(left.buffer(), round);
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      left.post({{SendOperation::kWrite,
                  {left.address() + i * kMessage, kMessage, left.lkey()},
                  target.address() + i * kMessage,
                  target.key()}});
    }
    for (uint32_t i = 0; i < kAtOnce; ++i) ASSERT_EQ(left.wait().status, CompletionStatus::kSuccess);
    ASSERT_EQ(std::memcmp(target.data(), left.buffer().data(), kAtOnce * kMessage), 0);
  }
  EXPECT_GE(right.device().counter(Counter::kEngineCopies), 20 * kAtOnce * 4);
}

/// A CPU that watches the last byte of a message, or a flag that is written behind it, sees the whole
/// message.
TEST_P(Dmadev, AWatchedMessage_ExpectItsLastByteAndTheFlagBehindItLast) {
  Memory target(right);
  constexpr uint32_t kMessage = 20'000;
  constexpr size_t kFlag = 64'000;
  constexpr int kRounds = 200;
  std::atomic<int> seen = 0;
  std::atomic<int> torn = 0;
  const auto byte_at = [&](size_t at) {
    return std::atomic_ref(target.data()[at]).load(std::memory_order_acquire);
  };
  std::memset(target.data(), 0, kFlag + 1);
  std::thread watcher([&] {
    for (int round = 1; round <= kRounds; ++round) {
      const auto value = static_cast<std::byte>(round);
      const size_t watched = round % 2 == 0 ? kMessage - 1 : kFlag;
      while (byte_at(watched) != value) sched_yield();
      if (!std::all_of(target.data(), target.data() + kMessage, [&](std::byte b) { return b == value; }))
        ++torn;
      while (byte_at(kFlag) != value) sched_yield();
      seen = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    std::memset(left.buffer().data(), round, kMessage);
    left.post({{SendOperation::kWrite, buffer_of(left, kMessage), target.address(), target.key()}});
    left.post({{SendOperation::kWrite, buffer_of(left, 1), target.address() + kFlag, target.key()}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(left.wait().status, CompletionStatus::kSuccess);
    while (seen != round) sched_yield();
  }
  watcher.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(right.device().counter(Counter::kEngineCopies), 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, Dmadev, ::testing::Values(PollerMode::kInline, PollerMode::kDedicated),
                         [](const auto& mode) {
                           return mode.param == PollerMode::kInline ? "Inline" : "Dedicated";
                         });

struct Mistake {
  std::vector<std::string> dmadev;
  int code;
  std::string_view says;
};

TEST(DmadevMistakes, ExpectOneLineWithTheKeyAndADeviceThatCanBeOpenedLater) {
  const Mistake mistakes[] = {
      {{"dma_nothing"}, ENODEV, "dma_nothing: no DPDK driver opens it"},
      {{"net_null0"}, ENODEV, "net_null0: is not a DMA device"},
      {{"dma_skeleton0", "dma_skeleton1"}, EINVAL, "2 devices for 1 pollers"},
  };
  for (const Mistake& mistake : mistakes) {
    Configuration configuration = with_engines(PollerMode::kInline);
    configuration.devices[0].dmadev = mistake.dmadev;
    const auto stack = Stack::create(configuration);
    ASSERT_TRUE(stack);
    const auto device = (*stack)->open(0);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, mistake.code);
    const std::string& message = device.error().message;
    EXPECT_NE(message.find("device.dmadev: " + std::string(mistake.says)), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  // One device for two pollers.
  Configuration shared = with_engines(PollerMode::kInline);
  shared.devices[1].dmadev = {"dma_skeleton0"};
  const auto stack = Stack::create(shared);
  const auto device = (*stack)->open(0);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, EBUSY);
  EXPECT_NE(device.error().message.find("in use already"), std::string::npos) << device.error().message;

  const Loopback loopback(with_engines(PollerMode::kInline));
  EXPECT_EQ(loopback.devices.size(), 2u);
}

}  // namespace
}  // namespace uroce::engine
