// Every device against a model: requests of all kinds, many under way, none of which touch the same blocks at
// the same time. UROCE_BLOCK_SEED=N repeats a run.

#include "base/values/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/block/memory.h"
#include "tests/unit/block/devices.h"
#include "tests/unit/block/ring_watch.h"

namespace uroce::testing {
namespace {

using block::Operation;

constexpr uint32_t kDepth = 16;
constexpr uint32_t kBlocksMax = 24;  // of a request
constexpr uint64_t kBlocks = 512;    // of the device that are used: few, so that requests meet each other's
constexpr int kRequests = 1000;

/// What the device holds, and which blocks may read as zeroes as well.
struct Model {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<bool> or_zeroes;

  explicit Model(uint32_t block_bytes)
      : blocks(kBlocks, std::vector<std::byte>(block_bytes)), or_zeroes(kBlocks) {}

  void write(uint64_t block, std::span<const std::byte> contents) {
    blocks[block].assign(contents.begin(), contents.end());
    or_zeroes[block] = false;
  }
  /// True when the device may have said so; then it holds that, for good.
  bool read(uint64_t block, std::span<const std::byte> contents) {
    const bool zeroes = std::ranges::all_of(contents, [](std::byte byte) { return byte == std::byte{0}; });
    if (!std::ranges::equal(contents, blocks[block]) && !(or_zeroes[block] && zeroes)) return false;
    write(block, contents);
    return true;
  }
};

struct UnderWay {
  block::Request request;
  std::optional<AlignedMemory> memory;
  std::vector<iovec> pieces;
  bool used = false;
};

class Traffic {
 public:
  Traffic(block::Device& device, uint64_t seed)
      : random_(seed), block_bytes_(device.properties().block_bytes), model_(block_bytes_), slots_(kDepth) {
    // Half of the memory is known to the kernel.
    for (uint32_t i = 0; i < kDepth; ++i) slots_[i].memory.emplace(kBlocksMax * block_bytes_);
    std::vector<std::span<std::byte>> registered;
    for (uint32_t i = 0; i < kDepth; i += 2) registered.push_back(slots_[i].memory->bytes());
    auto queue = device.open_queue(kDepth, registered);
    EXPECT_TRUE(queue.ok());
    if (queue.ok()) queue_ = std::move(*queue);
  }

  /// False: stops at the first mistake.
  bool go() {
    int submitted = 0;
    while (submitted < kRequests || std::ranges::any_of(slots_, &UnderWay::used)) {
      if (submitted < kRequests && random_.chance(3, 4)) submitted += begin() ? 1 : 0;
      if (random_.chance(1, 2) && !end_some()) return false;
    }
    return read_all();
  }

 private:
  bool begin() {
    const auto slot = std::ranges::find(slots_, false, &UnderWay::used);
    if (slot == slots_.end()) return false;
    const auto blocks = static_cast<uint32_t>(1 + random_.below(kBlocksMax));
    const uint64_t block = random_.below(kBlocks - blocks + 1);
    const bool meets = std::ranges::any_of(slots_, [&](const UnderWay& other) {
      return other.used && block < other.request.block + other.request.blocks &&
             other.request.block < block + blocks;
    });
    if (meets) return false;
    constexpr std::array kOperations = {Operation::kRead,  Operation::kRead,        Operation::kWrite,
                                        Operation::kWrite, Operation::kWriteZeroes, Operation::kDeallocate,
                                        Operation::kFlush};
    return submit(*slot, kOperations[random_.below(kOperations.size())], block, blocks);
  }

  bool submit(UnderWay& slot, Operation operation, uint64_t block, uint32_t blocks) {
    const bool moves = operation == Operation::kRead || operation == Operation::kWrite;
    slot.request = {.operation = operation,
                    .force_unit_access = operation == Operation::kWrite && random_.chance(1, 16),
                    .block = block,
                    .blocks = operation == Operation::kFlush ? 0 : blocks,
                    .user = &slot};
    slot.pieces.clear();
    for (uint32_t first = 0; moves && first < blocks;) {
      const auto count =
          static_cast<uint32_t>(random_.chance(1, 2) ? blocks - first : 1 + random_.below(blocks - first));
      slot.pieces.push_back(slot.memory->piece(size_t{first} * block_bytes_, size_t{count} * block_bytes_));
      first += count;
    }
    slot.request.memory = slot.pieces;
    slot.memory->scribble(random_.next());
    slot.used = true;
    return queue_->submit(slot.request);
  }

  bool end_some() {
    std::vector<block::Ended> ended(1 + random_.below(4));
    ended.resize(queue_->poll(ended));
    return std::ranges::all_of(ended, [&](const block::Ended& one) { return check(one); });
  }

  bool check(const block::Ended& ended) {
    UnderWay& slot = *static_cast<UnderWay*>(ended.user);
    EXPECT_TRUE(slot.used);
    EXPECT_EQ(ended.outcome, block::Outcome::kDone);
    slot.used = false;
    bool right = ended.outcome == block::Outcome::kDone;
    for (uint32_t i = 0; i < slot.request.blocks; ++i) {
      const uint64_t block = slot.request.block + i;
      const std::span<std::byte> contents =
          slot.memory->bytes().subspan(size_t{i} * block_bytes_, block_bytes_);
      if (slot.request.operation == Operation::kRead) {
        right = model_.read(block, contents) && right;
      } else if (slot.request.operation == Operation::kWrite) {
        model_.write(block, contents);
      } else if (slot.request.operation == Operation::kWriteZeroes) {
        model_.write(block, std::vector<std::byte>(block_bytes_));
      } else {
        model_.or_zeroes[block] = true;
      }
    }
    EXPECT_TRUE(right) << "block " << slot.request.block << ", " << slot.request.blocks << " of them";
    return right;
  }

  bool read_all() {
    for (uint64_t block = 0; block < kBlocks; block += 16) {
      if (!submit(slots_[0], Operation::kRead, block, 16)) return false;
      while (slots_[0].used) {
        if (!end_some()) return false;
      }
    }
    return true;
  }

  Random random_;
  uint32_t block_bytes_;
  Model model_;
  std::vector<UnderWay> slots_;
  std::unique_ptr<block::Queue> queue_;  // ends before their memory
};

class RandomRequests : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static std::vector<uint64_t> seeds() {
    const char* const one = std::getenv("UROCE_BLOCK_SEED");
    return one != nullptr ? std::vector<uint64_t>{std::strtoull(one, nullptr, 0)}
                          : std::vector<uint64_t>{1, 2, 3};
  }
};

TEST_P(RandomRequests, DoWhatTheModelDoes) {
  for (const uint64_t seed : seeds()) {
    const OpenedDevice opened = open_device(GetParam());
    if (!opened.missing.empty()) GTEST_SKIP() << opened.missing;
    ASSERT_NE(opened.device, nullptr);
    ASSERT_TRUE(Traffic(*opened.device, seed).go()) << "UROCE_BLOCK_SEED=" << seed;
  }
}

/// Where the kernel does less than it is asked for, or has no time.
class RandomSteps : public RandomRequests {};

TEST_P(RandomSteps, DoWhatTheModelDoes) {
  for (const uint64_t seed : seeds()) {
    const OpenedDevice opened = open_device(GetParam());
    if (!opened.missing.empty()) GTEST_SKIP() << opened.missing;
    ASSERT_NE(opened.device, nullptr);
    Random random(seed);
    RingWatch watch;
    const uint32_t block_bytes = GetParam().block_bytes;
    // Parts of blocks, too, where the storage allows that.
    const uint32_t unit = GetParam().on == DeviceKind::On::kLoop ? block_bytes : 512;
    watch.change = [&](io_uring_sqe& submission) {
      const bool vector = submission.opcode == IORING_OP_READV || submission.opcode == IORING_OP_WRITEV;
      const bool moves = submission.opcode != IORING_OP_FSYNC && submission.opcode != IORING_OP_FALLOCATE;
      if (moves && random.chance(1, 2))
        submission.len = vector ? 1 : std::max(block_bytes, submission.len / (2 * unit) * unit);
    };
    watch.results = [&](const io_uring_sqe&, int32_t result) {
      return random.chance(1, 8) ? -EAGAIN : result;
    };
    ASSERT_TRUE(Traffic(*opened.device, seed).go()) << "UROCE_BLOCK_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RandomRequests, ::testing::ValuesIn(kinds_that_keep()), name_of);
INSTANTIATE_TEST_SUITE_P(Every, RandomSteps, ::testing::ValuesIn(kinds_of_files()), name_of);

}  // namespace
}  // namespace uroce::testing
