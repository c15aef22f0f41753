// What the kernel is asked for: flushes and forced unit access reach the disk, registered memory is used as
// such.

#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "drivers/block_registry.h"
#include "tests/block/run_request.h"
#include "tests/unit/block/ring_watch.h"
#include "tests/unit/block/storage.h"

namespace uroce::testing {
namespace {

using block::Operation;
using block::Outcome;

constexpr uint32_t kBlockBytes = 4096;

/// An operation, and what the kernel is to be asked for because of it.
struct Asked {
  const char* name;
  Operation operation;
  bool force_unit_access;
  std::vector<io_uring_op> operations;  // one after the other
  int transfer_flags;                   // of the last, if it moves bytes
};

class Submissions : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = drivers::open_block_device(
        {.driver = "file", .path = folder_.make_file("contents", 1 << 20), .block_bytes = kBlockBytes});
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
    const std::vector<std::span<std::byte>> registered = {other_registered_.bytes(), registered_.bytes()};
    auto queue = device_->open_queue(16, registered);
    ASSERT_TRUE(queue.ok()) << queue.error().message;
    queue_ = std::move(*queue);
  }

  TemporaryFolder folder_;
  AlignedMemory registered_{4 * kBlockBytes};
  AlignedMemory other_registered_{4 * kBlockBytes};
  AlignedMemory not_registered_{4 * kBlockBytes};
  std::unique_ptr<block::Device> device_;
  std::unique_ptr<block::Queue> queue_;
  RingWatch watch_;
};

TEST_F(Submissions, OfEveryOperation) {
  const std::vector<Asked> all = {
      {"read", Operation::kRead, false, {IORING_OP_READ}, 0},
      {"write", Operation::kWrite, false, {IORING_OP_WRITE}, 0},
      {"durable write", Operation::kWrite, true, {IORING_OP_WRITE}, RWF_DSYNC},
      {"flush", Operation::kFlush, false, {IORING_OP_FSYNC}, 0},
      {"zeroes", Operation::kWriteZeroes, false, {IORING_OP_FALLOCATE}, 0},
      {"durable zeroes", Operation::kWriteZeroes, true, {IORING_OP_FALLOCATE, IORING_OP_FSYNC}, 0},
      {"deallocate", Operation::kDeallocate, false, {IORING_OP_FALLOCATE}, 0},
  };
  const iovec piece = not_registered_.piece();
  for (const Asked& asked : all) {
    SCOPED_TRACE(asked.name);
    watch_.seen.clear();
    const bool moves = asked.operation == Operation::kRead || asked.operation == Operation::kWrite;
    EXPECT_EQ(run_request(*queue_, {.operation = asked.operation,
                                    .force_unit_access = asked.force_unit_access,
                                    .block = 8,
                                    .blocks = 4,
                                    .memory = std::span(&piece, moves ? 1 : 0)}),
              Outcome::kDone);
    ASSERT_EQ(watch_.seen.size(), asked.operations.size());
    for (size_t i = 0; i < asked.operations.size(); ++i) {
      const io_uring_sqe& seen = watch_.seen[i];
      EXPECT_EQ(seen.opcode, asked.operations[i]);
      if (seen.opcode == IORING_OP_FSYNC) {
        EXPECT_EQ(seen.fsync_flags, IORING_FSYNC_DATASYNC);
        EXPECT_EQ(seen.off + seen.len, 0u);  // all of the file
      } else {
        EXPECT_EQ(seen.off, 8u * kBlockBytes);
      }
    }
    if (moves) {
      EXPECT_EQ(watch_.seen.back().rw_flags, asked.transfer_flags);
    }
  }
}

TEST_F(Submissions, OfZeroesWhereTheFileSystemMakesNone) {
  AlignedMemory memory(256 * kBlockBytes);
  memory.scribble(1);
  ASSERT_EQ(transfer(*queue_, Operation::kWrite, 0, kBlockBytes, memory), Outcome::kDone);
  watch_.change = [](io_uring_sqe& submission) {  // what is there stays there
    if (submission.opcode == IORING_OP_FALLOCATE) submission.opcode = IORING_OP_NOP, submission.rw_flags = 0;
  };
  watch_.results = [](const io_uring_sqe& submission, int32_t result) {
    return submission.opcode == IORING_OP_NOP ? -EOPNOTSUPP : result;
  };
  for (const bool force_unit_access : {true, false}) {
    watch_.seen.clear();
    EXPECT_EQ(run_request(*queue_, {.operation = Operation::kWriteZeroes,
                                    .force_unit_access = force_unit_access,
                                    .block = 1,
                                    .blocks = 255}),
              Outcome::kDone);
    // The first time it is tried.
    EXPECT_EQ(std::ranges::count(watch_.seen, IORING_OP_NOP, &io_uring_sqe::opcode),
              force_unit_access ? 1 : 0);
    const auto written = std::ranges::count_if(watch_.seen, [&](const io_uring_sqe& seen) {
      return seen.opcode == IORING_OP_WRITE && seen.rw_flags == (force_unit_access ? RWF_DSYNC : 0);
    });
    EXPECT_EQ(written, 4);
  }
  watch_.change = nullptr;
  ASSERT_EQ(transfer(*queue_, Operation::kRead, 0, kBlockBytes, memory), Outcome::kDone);
  EXPECT_TRUE(
      std::ranges::all_of(memory.bytes().subspan(kBlockBytes), [](auto b) { return b == std::byte{0}; }));
  EXPECT_FALSE(
      std::ranges::all_of(memory.bytes().first(kBlockBytes), [](auto b) { return b == std::byte{0}; }));
}

TEST_F(Submissions, OfRegisteredMemory) {
  struct Case {
    const char* name;
    std::vector<iovec> pieces;
    io_uring_op read;
    io_uring_op write;
  };
  const std::vector<Case> cases = {
      {"all of a buffer", {registered_.piece()}, IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED},
      {"the end of another",
       {other_registered_.piece(3 * kBlockBytes, kBlockBytes)},
       IORING_OP_READ_FIXED,
       IORING_OP_WRITE_FIXED},
      {"two pieces",
       {registered_.piece(0, kBlockBytes), registered_.piece(2 * kBlockBytes, kBlockBytes)},
       IORING_OP_READV,
       IORING_OP_WRITEV},
      {"other memory", {not_registered_.piece()}, IORING_OP_READ, IORING_OP_WRITE},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    uint32_t blocks = 0;
    for (const iovec& piece : one.pieces) blocks += static_cast<uint32_t>(piece.iov_len / kBlockBytes);
    registered_.scribble(1), other_registered_.scribble(2), not_registered_.scribble(3);
    const auto contents = [&] {
      std::vector<std::byte> all;
      for (const iovec& piece : one.pieces) {
        const auto* const first = static_cast<const std::byte*>(piece.iov_base);
        all.insert(all.end(), first, first + piece.iov_len);
      }
      return all;
    };
    const std::vector<std::byte> written = contents();
    watch_.seen.clear();
    ASSERT_EQ(run_request(*queue_, {.operation = Operation::kWrite, .blocks = blocks, .memory = one.pieces}),
              Outcome::kDone);
    registered_.fill({}), other_registered_.fill({}), not_registered_.fill({});
    ASSERT_EQ(run_request(*queue_, {.operation = Operation::kRead, .blocks = blocks, .memory = one.pieces}),
              Outcome::kDone);
    ASSERT_EQ(watch_.seen.size(), 2u);
    EXPECT_EQ(watch_.seen[0].opcode, one.write);
    EXPECT_EQ(watch_.seen[1].opcode, one.read);
    EXPECT_EQ(contents(), written);
  }
}

/// Memory of two buffers that happen to lie side by side is in neither of them.
TEST_F(Submissions, OfMemoryThatSpansTwoBuffers) {
  const std::vector<std::span<std::byte>> halves = {not_registered_.bytes().first(2 * kBlockBytes),
                                                    not_registered_.bytes().subspan(2 * kBlockBytes)};
  auto queue = device_->open_queue(1, halves);
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(transfer(**queue, Operation::kRead, 0, kBlockBytes, not_registered_), Outcome::kDone);
  ASSERT_EQ(watch_.seen.size(), 1u);
  EXPECT_EQ(watch_.seen[0].opcode, IORING_OP_READ);
}

TEST_F(Submissions, ManyWithOneCall) {
  const iovec piece = registered_.piece();
  for (int i = 0; i < 16; ++i)
    ASSERT_TRUE(queue_->submit({.operation = Operation::kRead, .blocks = 4, .memory = {&piece, 1}}));
  EXPECT_EQ(watch_.submits, 0u);
  std::vector<block::Ended> ended(16);
  for (size_t count = 0; count < 16;) count += queue_->poll(ended);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(queue_->poll(ended), 0u);  // nothing to hand over
  EXPECT_EQ(watch_.submits, 1u);
  EXPECT_EQ(watch_.seen.size(), 16u);
}

/// The kernel may do less than it is asked for, or nothing for now.
TEST_F(Submissions, AreGoneOnWithWhereTheKernelStopped) {
  const auto takes_pieces = [](const io_uring_sqe& submission) {
    return submission.opcode == IORING_OP_READV || submission.opcode == IORING_OP_WRITEV;
  };
  watch_.change = [&](io_uring_sqe& submission) {
    submission.len = std::min(submission.len, takes_pieces(submission) ? 1 : 2 * kBlockBytes - 512);
  };
  int steps = 0;
  watch_.results = [&](const io_uring_sqe& submission, int32_t result) {
    if (++steps % 3 == 0) return -EAGAIN;
    const bool in_a_piece = takes_pieces(submission) && result > static_cast<int32_t>(kBlockBytes);
    return in_a_piece ? result - 512 : result;
  };
  AlignedMemory written(12 * kBlockBytes);
  written.scribble(1);
  const AlignedMemory got(written.bytes().size());
  const auto in_pieces = [](const AlignedMemory& memory) {
    return std::vector{memory.piece(0, 4 * kBlockBytes), memory.piece(4 * kBlockBytes, kBlockBytes),
                       memory.piece(5 * kBlockBytes, 2 * kBlockBytes),
                       memory.piece(7 * kBlockBytes, 5 * kBlockBytes)};
  };
  const std::vector<iovec> from = in_pieces(written);
  const std::vector<iovec> to = in_pieces(got);
  ASSERT_EQ(run_request(*queue_, {.operation = Operation::kWrite, .block = 5, .blocks = 12, .memory = from}),
            Outcome::kDone);
  ASSERT_EQ(run_request(*queue_, {.operation = Operation::kRead, .block = 5, .blocks = 12, .memory = to}),
            Outcome::kDone);
  EXPECT_EQ(got, written);
  // Each: 3 + 1 blocks, 1, 1 + 1, and 5 times 1.
  EXPECT_EQ(steps - steps / 3, 2 * 10);
}

}  // namespace
}  // namespace uroce::testing
