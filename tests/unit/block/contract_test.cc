// What lib/block/block.h promises, of every device.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/block/run_request.h"
#include "tests/unit/block/devices.h"

namespace uroce::testing {
namespace {

using block::Operation;
using block::Outcome;

class BlockDevices : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    opened_ = open_device(GetParam());
    if (!opened_.missing.empty()) GTEST_SKIP() << opened_.missing;
    ASSERT_NE(opened_.device, nullptr);
    block_bytes_ = opened_.device->properties().block_bytes;
    queue_ = open_queue(kDepth);
    ASSERT_NE(queue_, nullptr);
  }

  std::unique_ptr<block::Queue> open_queue(uint32_t depth) {
    auto queue = opened_.device->open_queue(depth, {});
    EXPECT_TRUE(queue.ok()) << (queue.ok() ? "" : queue.error().message);
    return queue.ok() ? std::move(*queue) : nullptr;
  }
  [[nodiscard]] AlignedMemory scribbled(uint32_t blocks, uint64_t seed) const {
    AlignedMemory memory(uint64_t{blocks} * block_bytes_);
    memory.scribble(seed);
    return memory;
  }
  Outcome write(uint64_t block, const AlignedMemory& memory) {
    return transfer(*queue_, Operation::kWrite, block, block_bytes_, memory);
  }
  [[nodiscard]] AlignedMemory read(uint64_t block, uint32_t blocks) {
    AlignedMemory memory(uint64_t{blocks} * block_bytes_);
    memory.fill(std::byte{0xEE});
    EXPECT_EQ(transfer(*queue_, Operation::kRead, block, block_bytes_, memory), Outcome::kDone);
    return memory;
  }

  static constexpr uint32_t kDepth = 8;
  OpenedDevice opened_;
  uint32_t block_bytes_ = 0;
  std::unique_ptr<block::Queue> queue_;
};

/// Those that hold what is written to them.
class KeepingDevices : public BlockDevices {};

TEST_P(BlockDevices, SayWhatTheyAre) {
  const block::Properties& properties = opened_.device->properties();
  EXPECT_EQ(properties.block_bytes, GetParam().block_bytes);
  EXPECT_EQ(properties.blocks * properties.block_bytes, kDeviceBytes);
  EXPECT_EQ(properties.volatile_cache, GetParam().volatile_cache);
  EXPECT_FALSE(properties.read_only);
  EXPECT_TRUE(std::has_single_bit(properties.memory_alignment));
  EXPECT_LE(properties.memory_alignment, 4096u);
  EXPECT_EQ(properties.description.find('\n'), std::string::npos);
  EXPECT_FALSE(properties.description.empty());
}

TEST_P(KeepingDevices, ReadWhatWasWritten) {
  const uint64_t blocks = opened_.device->properties().blocks;
  for (const uint64_t block : {uint64_t{0}, uint64_t{7}, blocks - 5}) {
    const AlignedMemory written = scribbled(5, block);
    EXPECT_EQ(write(block, written), Outcome::kDone);
    EXPECT_EQ(read(block, 5), written) << block;
  }
}

TEST_P(KeepingDevices, BeginAsZeroes) { EXPECT_TRUE(read(0, 64).is_all(std::byte{0})); }

TEST_P(KeepingDevices, TakeManyPieces) {
  constexpr uint32_t kPieces = 1100;  // more than a system call takes
  const AlignedMemory written = scribbled(kPieces, 1);
  const AlignedMemory got(written.bytes().size());
  std::vector<iovec> from;
  std::vector<iovec> to;
  for (uint32_t i = 0; i < kPieces; ++i) {
    from.push_back(written.piece(size_t{i} * block_bytes_, block_bytes_));
    to.push_back(got.piece(size_t{i} * block_bytes_, block_bytes_));
  }
  EXPECT_EQ(
      run_request(*queue_, {.operation = Operation::kWrite, .block = 3, .blocks = kPieces, .memory = from}),
      Outcome::kDone);
  EXPECT_EQ(
      run_request(*queue_, {.operation = Operation::kRead, .block = 3, .blocks = kPieces, .memory = to}),
      Outcome::kDone);
  EXPECT_EQ(got, written);
}

TEST_P(BlockDevices, TakeAsManyAsTheQueueIsDeep) {
  std::array<int, kDepth> users{};
  std::array<block::Ended, 1> ended;
  for (int round = 0; round < 3; ++round) {
    const AlignedMemory memory(block_bytes_);
    const iovec piece = memory.piece();
    const block::Request read = {.operation = Operation::kRead, .blocks = 1, .memory = {&piece, 1}};
    for (size_t i = 0; i < users.size(); ++i) {
      block::Request request = read;
      if (i % 3 != 0)
        request = {.operation = i % 3 == 1 ? Operation::kWriteZeroes : Operation::kFlush, .blocks = 1};
      request.user = &users[i];
      EXPECT_TRUE(queue_->submit(request));
    }
    EXPECT_FALSE(queue_->submit(read));
    std::set<void*> back;
    while (back.size() < users.size()) {
      if (queue_->poll(ended) == 0) continue;
      EXPECT_EQ(ended[0].outcome, Outcome::kDone);
      EXPECT_TRUE(back.insert(ended[0].user).second);
    }
    EXPECT_EQ(back.count(nullptr), 0u);
    EXPECT_EQ(queue_->poll(ended), 0u);
  }
}

TEST_P(BlockDevices, HandBackNothingWithoutAUser) {
  int user = 0;
  ASSERT_TRUE(queue_->submit({.operation = Operation::kFlush, .user = &user}));
  EXPECT_EQ(queue_->poll({}), 0u);
  std::array<block::Ended, 4> ended;
  size_t count = 0;
  while (count == 0) count = queue_->poll(ended);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(ended[0].user, &user);
  EXPECT_EQ(ended[0].outcome, Outcome::kDone);
}

TEST_P(BlockDevices, WriteZeroes) {
  for (const bool force_unit_access : {false, true}) {
    ASSERT_EQ(write(0, scribbled(64, 2)), Outcome::kDone);
    EXPECT_EQ(run_request(*queue_, {.operation = Operation::kWriteZeroes,
                                    .force_unit_access = force_unit_access,
                                    .block = 1,
                                    .blocks = 61}),
              Outcome::kDone);
    if (!GetParam().keeps) continue;
    EXPECT_TRUE(read(1, 61).is_all(std::byte{0}));
    EXPECT_FALSE(read(0, 1).is_all(std::byte{0}));
    EXPECT_FALSE(read(62, 2).is_all(std::byte{0}));
  }
}

TEST_P(BlockDevices, ZeroAllOfThemselves) {
  const auto blocks = static_cast<uint32_t>(opened_.device->properties().blocks);
  ASSERT_EQ(write(blocks - 1, scribbled(1, 3)), Outcome::kDone);
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kWriteZeroes, .blocks = blocks}), Outcome::kDone);
  if (GetParam().keeps) {
    EXPECT_TRUE(read(blocks - 1, 1).is_all(std::byte{0}));
  }
}

TEST_P(BlockDevices, DeallocateWhatIsNotNeeded) {
  const AlignedMemory written = scribbled(64, 4);
  ASSERT_EQ(write(0, written), Outcome::kDone);
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kDeallocate, .block = 8, .blocks = 48}),
            Outcome::kDone);
  if (!GetParam().keeps) return;
  const AlignedMemory now = read(0, 64);
  for (uint32_t block = 0; block < 64; ++block) {
    const auto of = [&](const AlignedMemory& memory) {
      return memory.bytes().subspan(size_t{block} * block_bytes_, block_bytes_);
    };
    const bool zeroes = std::ranges::all_of(of(now), [](std::byte byte) { return byte == std::byte{0}; });
    const bool may_be_zeroes = block >= 8 && block < 56;
    EXPECT_TRUE(std::ranges::equal(of(now), of(written)) || (may_be_zeroes && zeroes)) << block;
  }
}

TEST_P(KeepingDevices, ShowAllQueuesTheSame) {
  const auto other = open_queue(1);
  const AlignedMemory written = scribbled(16, 5);
  ASSERT_EQ(write(100, written), Outcome::kDone);
  const AlignedMemory got(written.bytes().size());
  EXPECT_EQ(transfer(*other, Operation::kRead, 100, block_bytes_, got), Outcome::kDone);
  EXPECT_EQ(got, written);
}

TEST_P(BlockDevices, LieInTheirMemory) {
  const std::span<std::byte> memory = opened_.device->memory();
  ASSERT_EQ(memory.size(), std::string(GetParam().driver) == "ram" ? kDeviceBytes : 0);
  if (memory.empty()) return;
  const AlignedMemory written = scribbled(16, 6);
  ASSERT_EQ(write(100, written), Outcome::kDone);
  EXPECT_TRUE(std::ranges::equal(memory.subspan(100 * block_bytes_, 16 * block_bytes_), written.bytes()));
}

/// The thread that opens a queue, the one that uses it and the one that ends it may be three.
TEST_P(BlockDevices, AreUsedByAnotherThread) {
  const AlignedMemory memory(size_t{64} * block_bytes_);
  const iovec piece = memory.piece();
  std::thread([&] {
    EXPECT_EQ(write(0, scribbled(64, 8)), Outcome::kDone);
    for (uint32_t i = 0; i < kDepth; ++i)
      EXPECT_TRUE(queue_->submit({.operation = Operation::kRead, .blocks = 64, .memory = {&piece, 1}}));
    EXPECT_EQ(queue_->poll({}), 0u);  // and leaves them
  }).join();
  queue_.reset();
  queue_ = open_queue(1);
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kFlush}), Outcome::kDone);
}

TEST_P(BlockDevices, LeaveMemoryAloneOnceTheQueueIsGone) {
  ASSERT_EQ(write(0, scribbled(1024, 7)), Outcome::kDone);
  std::vector<AlignedMemory> memories;
  std::vector<iovec> pieces;
  for (uint32_t i = 0; i < kDepth; ++i) pieces.push_back(memories.emplace_back(1024 * block_bytes_).piece());
  for (uint32_t i = 0; i < kDepth; ++i) {
    ASSERT_TRUE(queue_->submit({.operation = i % 2 == 0 ? Operation::kRead : Operation::kWriteZeroes,
                                .block = i % 2 == 0 ? 0u : 2048u,
                                .blocks = 1024,
                                .memory = std::span(pieces).subspan(i, i % 2 == 0 ? 1 : 0)}));
  }
  ASSERT_LE(queue_->poll({}), 0u);  // they are handed over
  queue_.reset();
  for (AlignedMemory& memory : memories) memory.fill(std::byte{0x5A});
  queue_ = open_queue(kDepth);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(run_request(*queue_, {.operation = Operation::kFlush}), Outcome::kDone);
    if (i % 10 == 0) {
      for (const AlignedMemory& memory : memories) ASSERT_TRUE(memory.is_all(std::byte{0x5A}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BlockDevices, ::testing::ValuesIn(kDeviceKinds), name_of);
INSTANTIATE_TEST_SUITE_P(Every, KeepingDevices, ::testing::ValuesIn(kinds_that_keep()), name_of);

}  // namespace
}  // namespace uroce::testing
