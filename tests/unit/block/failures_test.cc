// Storage that fails, is full, becomes shorter or goes away: an outcome for the request, and the device goes
// on.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
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

class FailingStorage : public ::testing::Test {
 protected:
  void open(const std::string& path) {
    auto device = drivers::open_block_device({.driver = "file", .path = path, .block_bytes = kBlockBytes});
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
    auto queue = device_->open_queue(4, {});
    ASSERT_TRUE(queue.ok()) << queue.error().message;
    queue_ = std::move(*queue);
  }
  Outcome run(Operation operation, uint64_t block) {
    const AlignedMemory memory(4 * kBlockBytes);
    return transfer(*queue_, operation, block, kBlockBytes, memory);
  }

  TemporaryFolder folder_;
  std::unique_ptr<block::Device> device_;
  std::unique_ptr<block::Queue> queue_;
};

TEST_F(FailingStorage, ErrorsBecomeOutcomes) {
  open(folder_.make_file("contents", 1 << 20));
  const std::vector<std::pair<int, Outcome>> all = {
      {EIO, Outcome::kMediaError},   {ENODATA, Outcome::kMediaError}, {EINVAL, Outcome::kMediaError},
      {EPERM, Outcome::kMediaError}, {ENOSPC, Outcome::kNoSpace},     {EDQUOT, Outcome::kNoSpace},
      {EFBIG, Outcome::kNoSpace},    {ENODEV, Outcome::kGone},        {ENXIO, Outcome::kGone},
      {ESTALE, Outcome::kGone},      {EAGAIN, Outcome::kMediaError},  {EINTR, Outcome::kMediaError},
  };
  RingWatch watch;
  for (const auto& [error, outcome] : all) {
    watch.results = [error](const io_uring_sqe&, int32_t) { return -error; };
    for (const Operation operation : {Operation::kRead, Operation::kWrite})
      EXPECT_EQ(run(operation, 0), outcome) << error;
    for (const Operation operation : {Operation::kFlush, Operation::kWriteZeroes, Operation::kDeallocate})
      EXPECT_EQ(run_request(*queue_, {.operation = operation, .blocks = 1}), outcome) << error;
  }
  watch.results = nullptr;
  EXPECT_EQ(run(Operation::kWrite, 0), Outcome::kDone);
}

/// A write that is durable no sooner than fdatasync() says so, when that fails.
TEST_F(FailingStorage, ZeroesAreNotDurableWhenTheFlushFails) {
  open(folder_.make_file("contents", 1 << 20));
  RingWatch watch;
  watch.results = [](const io_uring_sqe& submission, int32_t result) {
    return submission.opcode == IORING_OP_FSYNC ? -EIO : result;
  };
  EXPECT_EQ(
      run_request(*queue_, {.operation = Operation::kWriteZeroes, .force_unit_access = true, .blocks = 4}),
      Outcome::kMediaError);
}

TEST_F(FailingStorage, AFullFileSystemHasNoSpace) {
  const MemoryFileSystem small(folder_, "tmpfs", 1 << 20);
  if (!small.missing().empty()) GTEST_SKIP() << small.missing();
  open(folder_.make_file("contents", 16 << 20));
  uint64_t block = 0;
  Outcome outcome = Outcome::kDone;
  while (outcome == Outcome::kDone && block < 4096) outcome = run(Operation::kWrite, block += 4);
  EXPECT_EQ(outcome, Outcome::kNoSpace);
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kWriteZeroes, .block = 2048, .blocks = 1024}),
            Outcome::kNoSpace);
  EXPECT_EQ(run(Operation::kRead, 0), Outcome::kDone);
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kDeallocate, .blocks = 4096}), Outcome::kDone);
  EXPECT_EQ(run(Operation::kWrite, 2048), Outcome::kDone);
}

TEST_F(FailingStorage, AFileThatBecameShorterIsNotReadAsZeroes) {
  const std::string path = folder_.make_file("contents", 1 << 20);
  open(path);
  ASSERT_EQ(::truncate(path.c_str(), 10 * kBlockBytes + 512), 0);
  EXPECT_EQ(run(Operation::kRead, 6), Outcome::kDone);
  EXPECT_EQ(run(Operation::kRead, 7), Outcome::kMediaError);   // a part of the last block
  EXPECT_EQ(run(Operation::kRead, 10), Outcome::kMediaError);  // a part of the first
  EXPECT_EQ(run(Operation::kRead, 200), Outcome::kMediaError);
  // Zeroes and holes do not make it longer.
  EXPECT_EQ(run_request(*queue_, {.operation = Operation::kWriteZeroes, .block = 200, .blocks = 4}),
            Outcome::kDone);
  EXPECT_EQ(run(Operation::kRead, 200), Outcome::kMediaError);
}

TEST_F(FailingStorage, AFileThatWasRemovedIsThereUntilItIsClosed) {
  const std::string path = folder_.make_file("contents", 1 << 20);
  open(path);
  ASSERT_TRUE(std::filesystem::remove(path));
  EXPECT_EQ(run(Operation::kWrite, 0), Outcome::kDone);
  EXPECT_EQ(run(Operation::kRead, 0), Outcome::kDone);
}

TEST_F(FailingStorage, ABlockDeviceThatGoesAwayIsGone) {
  const std::string path = folder_.make_file("contents", 1 << 20);
  const LoopDevice loop(path, 512);
  if (!loop.missing().empty()) GTEST_SKIP() << loop.missing();
  open(loop.path());
  EXPECT_EQ(run(Operation::kWrite, 0), Outcome::kDone);
  // What the kernel makes of a disk that is pulled out: one without a capacity.
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  ASSERT_TRUE(loop.follow_size());
  EXPECT_EQ(run(Operation::kRead, 0), Outcome::kGone);
  EXPECT_EQ(run(Operation::kWrite, 0), Outcome::kGone);
}

TEST_F(FailingStorage, ABlockDeviceThatBecameSmallerFails) {
  const std::string path = folder_.make_file("contents", 1 << 20);
  const LoopDevice loop(path, 512);
  if (!loop.missing().empty()) GTEST_SKIP() << loop.missing();
  open(loop.path());
  ASSERT_EQ(::truncate(path.c_str(), 1 << 19), 0);
  ASSERT_TRUE(loop.follow_size());
  EXPECT_EQ(run(Operation::kRead, 200), Outcome::kMediaError);
  EXPECT_NE(run(Operation::kWrite, 200), Outcome::kDone);
  EXPECT_EQ(run(Operation::kRead, 0), Outcome::kDone);
}

TEST_F(FailingStorage, WhatIsReadOnlyIsNotWritten) {
  const std::string path = folder_.make_file("contents", 1 << 20);
  auto device = drivers::open_block_device({.driver = "file", .path = path, .read_only = true});
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_TRUE((*device)->properties().read_only);
  auto queue = (*device)->open_queue(1, {});
  ASSERT_TRUE(queue.ok());
  const AlignedMemory memory(512);
  EXPECT_EQ(transfer(**queue, Operation::kRead, 0, 512, memory), Outcome::kDone);
  EXPECT_EQ(transfer(**queue, Operation::kWrite, 0, 512, memory), Outcome::kMediaError);
  EXPECT_EQ(run_request(**queue, {.operation = Operation::kFlush}), Outcome::kDone);
}

}  // namespace
}  // namespace uroce::testing
