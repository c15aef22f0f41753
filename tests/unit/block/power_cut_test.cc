// The device whose power can be cut: what it promises to the tests that use it.

#include "tests/block/power_cut.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "base/values/random.h"
#include "tests/block/run_request.h"

namespace uroce::testing {
namespace {

using block::Operation;
using block::Outcome;
using Survivors = PowerCutDevice::Survivors;

constexpr uint32_t kBlockBytes = 512;

class PowerCut : public ::testing::Test {
 protected:
  static std::unique_ptr<block::Queue> open_queue(PowerCutDevice& device) {
    auto queue = device.open_queue(8, {});
    EXPECT_TRUE(queue.ok());
    return std::move(*queue);
  }
  static Outcome write(block::Queue& queue, uint64_t block, std::byte value, bool force_unit_access = false) {
    AlignedMemory memory(kBlockBytes);
    memory.fill(value);
    const iovec piece = memory.piece();
    return run_request(queue, {.operation = Operation::kWrite,
                               .force_unit_access = force_unit_access,
                               .block = block,
                               .blocks = 1,
                               .memory = {&piece, 1}});
  }
  static int read(block::Queue& queue, uint64_t block) {
    AlignedMemory memory(kBlockBytes);
    memory.fill(std::byte{0xEE});
    if (transfer(queue, Operation::kRead, block, kBlockBytes, memory) != Outcome::kDone) return -1;
    return memory.is_all(memory.bytes()[0]) ? static_cast<int>(memory.bytes()[0]) : -1;
  }
};

TEST_F(PowerCut, LosesWhatWasNotFlushed) {
  PowerCutDevice device({.block_bytes = kBlockBytes, .blocks = 8});
  auto queue = open_queue(device);
  ASSERT_EQ(write(*queue, 0, std::byte{1}), Outcome::kDone);
  ASSERT_EQ(run_request(*queue, {.operation = Operation::kFlush}), Outcome::kDone);
  ASSERT_EQ(write(*queue, 0, std::byte{2}), Outcome::kDone);
  ASSERT_EQ(write(*queue, 1, std::byte{3}), Outcome::kDone);
  ASSERT_EQ(write(*queue, 2, std::byte{4}, true), Outcome::kDone);
  ASSERT_EQ(run_request(*queue, {.operation = Operation::kWriteZeroes, .block = 2, .blocks = 1}),
            Outcome::kDone);
  EXPECT_EQ(read(*queue, 0), 2);
  EXPECT_EQ(read(*queue, 2), 0);
  device.cut(Survivors::kNone);
  queue = open_queue(device);
  EXPECT_EQ(read(*queue, 0), 1);
  EXPECT_EQ(read(*queue, 1), 0);
  EXPECT_EQ(read(*queue, 2), 4);
}

TEST_F(PowerCut, EndsWhatIsUnderWay) {
  PowerCutDevice device({.block_bytes = kBlockBytes, .blocks = 8, .polls_max = 1});
  auto queue = open_queue(device);
  device.cut(Survivors::kNone);
  EXPECT_EQ(write(*queue, 0, std::byte{1}, true), Outcome::kGone);
  EXPECT_EQ(read(*queue, 0), -1);
  EXPECT_EQ(read(*open_queue(device), 0), 0);
}

/// Every version since the last flush may survive, block by block; which of them there were is seen over many
/// cuts.
TEST_F(PowerCut, SparesWhatChanceSpares) {
  std::array<int, 4> survived{};
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    PowerCutDevice device({.block_bytes = kBlockBytes, .blocks = 2, .seed = seed});
    auto queue = open_queue(device);
    for (const std::byte value : {std::byte{1}, std::byte{2}, std::byte{3}})
      ASSERT_EQ(write(*queue, 0, value), Outcome::kDone);
    ASSERT_EQ(write(*queue, 1, std::byte{9}, true), Outcome::kDone);
    device.cut(Survivors::kSome);
    queue = open_queue(device);
    const int value = read(*queue, 0);
    ASSERT_TRUE(value >= 0 && value <= 3) << value;
    ++survived[static_cast<size_t>(value)];
    EXPECT_EQ(read(*queue, 1), 9);
  }
  for (const int times : survived) EXPECT_GT(times, 0);
}

/// What was acknowledged before a flush began, or was written with force_unit_access, is there; with many
/// requests under way at the cut.
TEST_F(PowerCut, KeepsWhatWasAcknowledgedDurable) {
  constexpr uint64_t kBlocks = 16;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PowerCutDevice device({.block_bytes = kBlockBytes, .blocks = kBlocks, .seed = seed});
    auto queue = open_queue(device);
    std::array<uint8_t, kBlocks> written{};  // each write to a block has a greater value than the one before
    std::array<uint8_t, kBlocks> durable{};
    for (int i = 0; i < 60; ++i) {
      const uint64_t block = random.below(kBlocks);
      if (random.chance(1, 8)) {
        ASSERT_EQ(run_request(*queue, {.operation = Operation::kFlush}), Outcome::kDone);
        durable = written;
      } else {
        const bool force_unit_access = random.chance(1, 4);
        ASSERT_EQ(write(*queue, block, static_cast<std::byte>(++written[block]), force_unit_access),
                  Outcome::kDone);
        if (force_unit_access) durable[block] = written[block];
      }
    }
    const AlignedMemory memory(kBlockBytes);
    const iovec piece = memory.piece();
    for (uint64_t block = 0; block < 4; ++block)  // never acknowledged: they may be there as zeroes
      ASSERT_TRUE(queue->submit(
          {.operation = Operation::kWrite, .block = 4 * block, .blocks = 1, .memory = {&piece, 1}}));
    device.cut(random.chance(1, 2) ? Survivors::kNone : Survivors::kSome);
    queue = open_queue(device);
    for (uint64_t block = 0; block < kBlocks; ++block) {
      const int value = read(*queue, block);
      if (block % 4 == 0 && value == 0) continue;
      EXPECT_GE(value, durable[block]) << block;
      EXPECT_LE(value, written[block]) << block;
    }
  }
}

}  // namespace
}  // namespace uroce::testing
