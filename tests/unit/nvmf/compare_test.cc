// Compare, and fused Compare and Write.
#include <algorithm>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;
using Fuse = Command::Fuse;

class Compare : public Disks, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr uint32_t kBytes = 200 * 512;  // more than is read at once

  Command compare(uint64_t block = 0, uint32_t blocks = 1, Fuse fuse = Fuse::kNone) {
    return command::fused(command::blocks(command::kCompare, 1, block, blocks), fuse);
  }
  Command write(uint64_t block = 0, uint32_t blocks = 1, Fuse fuse = Fuse::kSecond) {
    return command::fused(command::blocks(command::kWrite, 1, block, blocks), fuse);
  }
  Bytes stored(uint64_t block) const {
    const auto from = disk->bytes.begin() + static_cast<std::ptrdiff_t>(block * 512);
    return {from, from + 512};
  }

  std::shared_ptr<DeviceScript> disk = add(1, {.in_memory = GetParam()});
  Host host{target};
  HostQueue& io = host.io();
  const Bytes zeroes = Bytes(512);
};

INSTANTIATE_TEST_SUITE_P(InMemoryOrNot, Compare, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Memory" : "Device"; });

TEST_P(Compare, Alone) {
  const Bytes data = pattern(kBytes, 1);
  ASSERT_TRUE(io.run(command::blocks(command::kWrite, 1, 10, 200), data).ok());
  EXPECT_TRUE(io.run(compare(10, 200), data).ok());
  for (const size_t place : {0u, 511u, 70'000u, kBytes - 1}) {
    Bytes other = data;
    other[place] ^= std::byte{1};
    expect_refused(io.run(compare(10, 200), other), StatusCode::kCompareFailure);
  }
}

TEST_P(Compare, TwoAtOnce) {
  const uint16_t one = io.send(compare(0, 200), Bytes(kBytes)), two = io.send(compare(0, 200), Bytes(kBytes));
  EXPECT_TRUE(io.answer(one)->ok());
  EXPECT_TRUE(io.answer(two)->ok());
}

TEST_P(Compare, AndWrite) {
  const Bytes data = pattern(512, 1);
  const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), zeroes);
  io.poll();
  EXPECT_EQ(disk->count(Operation::kRead), 0u);  // nothing without the second
  const uint16_t second = io.send(write(4), data);
  EXPECT_TRUE(io.answer(first)->ok());
  EXPECT_TRUE(io.answer(second)->ok());
  EXPECT_EQ(stored(4), data);
}

TEST_P(Compare, AndWriteInWhateverOrderTheirDataComes) {
  const uint16_t first = io.receive(compare(4, 1, Fuse::kFirst), zeroes);
  const uint16_t second = io.receive(write(4), pattern(512, 1));
  io.execute(second);
  io.poll();
  EXPECT_EQ(disk->count(Operation::kWrite), 0u);
  io.execute(first);
  EXPECT_TRUE(io.answer(first)->ok());
  EXPECT_TRUE(io.answer(second)->ok());
  EXPECT_EQ(stored(4), pattern(512, 1));
}

TEST_P(Compare, ThatFailsStopsTheWrite) {
  const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), pattern(512, 7));
  const uint16_t second = io.send(write(4), pattern(512, 1));
  EXPECT_EQ(io.answer(first)->code, StatusCode::kCompareFailure);
  EXPECT_EQ(io.answer(second)->code, StatusCode::kAbortedFailedFused);
  EXPECT_EQ(stored(4), zeroes);
  // Others may write again.
  EXPECT_TRUE(io.run(write(4, 1, Fuse::kNone), pattern(512, 1)).ok());
}

TEST_P(Compare, ThatIsRefusedStopsTheWrite) {
  const uint16_t first = io.send(compare(256, 1, Fuse::kFirst), zeroes);
  EXPECT_EQ(io.answer(first)->code, StatusCode::kLbaOutOfRange);
  EXPECT_EQ(io.run(write(256), zeroes).code, StatusCode::kAbortedFailedFused);
}

TEST_P(Compare, HalvesThatDoNotBelongTogether) {
  struct Row {
    const char* name;
    Command second;
  };
  const Row rows[] = {{"another block", write(5)}, {"more blocks", write(4, 2)}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), zeroes);
    expect_refused(io.run(row.second, Bytes(1024)), StatusCode::kInvalidField);
    EXPECT_EQ(io.answer(first)->code, StatusCode::kAbortedFailedFused);
  }
  EXPECT_EQ(disk->count(Operation::kWrite), 0u);
}

TEST_P(Compare, FirstHalfWithoutSecond) {
  const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), zeroes);
  EXPECT_TRUE(io.run(compare(4), zeroes).ok());
  EXPECT_EQ(io.answer(first)->code, StatusCode::kAbortedMissingFused);
  // The same when its data is still on the way.
  const uint16_t slow = io.receive(compare(4, 1, Fuse::kFirst), zeroes);
  EXPECT_TRUE(io.run(compare(4), zeroes).ok());
  io.execute(slow);
  EXPECT_EQ(io.answer(slow)->code, StatusCode::kAbortedMissingFused);
}

TEST_P(Compare, TwoFirstHalves) {
  const uint16_t alone = io.send(compare(4, 1, Fuse::kFirst), zeroes);
  const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), zeroes);
  const uint16_t second = io.send(write(4), pattern(512, 1));
  EXPECT_EQ(io.answer(alone)->code, StatusCode::kAbortedMissingFused);
  EXPECT_TRUE(io.answer(first)->ok());
  EXPECT_TRUE(io.answer(second)->ok());
}

TEST_P(Compare, SecondHalfWithoutFirst) {
  EXPECT_EQ(io.run(write(4), zeroes).code, StatusCode::kAbortedMissingFused);
  EXPECT_TRUE(io.run(compare(), zeroes).ok());
  EXPECT_EQ(io.run(write(4), zeroes).code, StatusCode::kAbortedMissingFused);
}

TEST_P(Compare, OtherCommandsAreNoHalves) {
  expect_refused(io.run(command::fused(command::blocks(command::kRead, 1, 0, 1), Fuse::kFirst)),
                 StatusCode::kInvalidField);
  expect_refused(io.run(write(0, 1, Fuse::kFirst), zeroes), StatusCode::kInvalidField);
  const uint16_t first = io.send(compare(0, 1, Fuse::kFirst), zeroes);
  expect_refused(io.run(compare(0, 1, Fuse::kSecond), zeroes), StatusCode::kInvalidField);
  EXPECT_EQ(io.answer(first)->code, StatusCode::kAbortedFailedFused);
  expect_refused(host.admin.run(command::fused(command::make(command::kKeepAlive), Fuse::kFirst)),
                 StatusCode::kInvalidField);
}

TEST_P(Compare, TransportFailsOneHalf) {
  uint16_t first = io.receive(compare(4, 1, Fuse::kFirst), zeroes);
  uint16_t second = io.receive(write(4), zeroes);
  io.fail(first, failed(StatusCode::kDataTransferError));
  io.execute(second);
  EXPECT_EQ(io.answer(first)->code, StatusCode::kDataTransferError);
  EXPECT_EQ(io.answer(second)->code, StatusCode::kAbortedFailedFused);

  first = io.send(compare(4, 1, Fuse::kFirst), zeroes);
  second = io.receive(write(4), zeroes);
  io.fail(second, failed(StatusCode::kDataTransferError));
  EXPECT_EQ(io.answer(first)->code, StatusCode::kAbortedFailedFused);
  EXPECT_EQ(io.answer(second)->code, StatusCode::kDataTransferError);
  EXPECT_TRUE(disk->seen.empty());
}

TEST_P(Compare, OthersDoNotWriteBetween) {
  HostQueue& other = host.io(2);
  // A write of the other queue is under way: the pair waits for it.
  disk->hold = true;
  const uint16_t before = other.send(command::blocks(command::kWrite, 1, 4, 1), pattern(512, 1));
  const uint16_t first = io.send(compare(4, 1, Fuse::kFirst), pattern(512, 1));
  const uint16_t second = io.send(write(4), pattern(512, 2));
  io.poll();
  EXPECT_EQ(disk->seen.size(), 1u);
  // New ones wait for the pair, from any queue.
  const uint16_t after = other.send(command::blocks(command::kWrite, 1, 4, 1), pattern(512, 3));
  const uint16_t own = io.send(command::blocks(command::kWriteZeroes, 1, 9, 1));
  const uint16_t read = other.send(command::blocks(command::kRead, 1, 4, 1));
  EXPECT_EQ(disk->count(Operation::kWrite), 1u);
  disk->hold = false;
  EXPECT_TRUE(other.answer(before)->ok());
  EXPECT_TRUE(other.answer(read)->ok());
  EXPECT_EQ(disk->count(Operation::kWrite), 1u);
  EXPECT_TRUE(io.answer(first)->ok());
  EXPECT_TRUE(io.answer(second)->ok());
  EXPECT_EQ(stored(4), pattern(512, 2));
  EXPECT_TRUE(other.answer(after)->ok());
  EXPECT_TRUE(io.answer(own)->ok());
  EXPECT_EQ(stored(4), pattern(512, 3));
}

TEST_P(Compare, TwoPairsOneAfterTheOther) {
  HostQueue& other = host.io(2);
  ASSERT_TRUE(other.run(command::blocks(command::kRead, 1, 0, 1)).ok());
  const uint16_t a1 = io.send(compare(4, 1, Fuse::kFirst), zeroes), a2 = io.send(write(4), pattern(512, 1));
  const uint16_t b1 = other.send(compare(4, 1, Fuse::kFirst), zeroes),
                 b2 = other.send(write(4), pattern(512, 2));
  std::vector<Answer> answers;
  for (int i = 0; i < 20; ++i)
    for (HostQueue* queue : {&io, &other})
      for (Answer& answer : queue->poll()) answers.push_back(answer);
  ASSERT_EQ(answers.size(), 4u);
  // One of them has won.
  const bool a_won = stored(4) == pattern(512, 1);
  EXPECT_EQ(stored(4), pattern(512, a_won ? 1 : 2));
  EXPECT_EQ(std::ranges::count(answers, StatusCode::kSuccess, &Answer::code), 2);
  EXPECT_EQ(std::ranges::count(answers, StatusCode::kCompareFailure, &Answer::code), 1);
  EXPECT_EQ(std::ranges::count(answers, StatusCode::kAbortedFailedFused, &Answer::code), 1);
  (void)a1, (void)a2, (void)b1, (void)b2;
}

TEST_P(Compare, QueueThatGoesLetsOthersWrite) {
  HostQueue& other = host.io(2);
  disk->hold = true;
  const uint16_t before = other.send(command::blocks(command::kWrite, 1, 9, 1), zeroes);
  io.send(compare(4, 1, Fuse::kFirst), zeroes);
  io.send(write(4), zeroes);
  io.poll();
  const uint16_t after = other.send(command::blocks(command::kWrite, 1, 9, 1), zeroes);
  EXPECT_TRUE(io.drain());
  disk->hold = false;
  EXPECT_TRUE(other.answer(before)->ok());
  EXPECT_TRUE(other.answer(after)->ok());
}

}  // namespace
}  // namespace uroce::nvmf
