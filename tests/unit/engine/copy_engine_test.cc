// Devices whose pollers leave copies to an engine, which here does nothing before it is told to: what is seen
// meanwhile, and what becomes of copies that fail or never end.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

using copy::LateEngine;
using queue::CompletionStatus;
using queue::SendOperation;

constexpr uint32_t kMtu = 1024;  // of Side::connect()
constexpr uint32_t kLength = 3 * kMtu + 100;

/// Memory that a device takes for its stack's own.
class OurMemory {
 public:
  static constexpr size_t kBytes = 64 << 10;

  explicit OurMemory(Side& side) : side_(side), bytes_(kBytes) {
    const auto keys = side.device().regions().register_user(
        {.domain = side.domain(),
         .address = bytes_.data(),
         .length = bytes_.size(),
         .iova = address(0),
         .access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead,
         .ours = true});
    EXPECT_TRUE(keys);
    if (keys) key_ = keys->lkey;
  }
  ~OurMemory() { deregister(); }
  OurMemory(const OurMemory&) = delete;
  OurMemory& operator=(const OurMemory&) = delete;

  void deregister() {
    if (!key_) return;
    EXPECT_TRUE(side_.device().regions().deregister(*key_));
    key_.reset();
  }
  [[nodiscard]] std::byte* at(size_t offset) { return bytes_.data() + offset; }
  [[nodiscard]] uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(at(offset)); }
  [[nodiscard]] MemoryKey key() const { return *key_; }
  [[nodiscard]] queue::Segment part(size_t offset, uint32_t length) {
    return {address(offset), length, key()};
  }

 private:
  Side& side_;
  std::vector<std::byte> bytes_;
  std::optional<MemoryKey> key_;
};

class CopyEngine : public ::testing::Test {
 protected:
  CopyEngine() {
    EXPECT_EQ(connect_pair(left, right), 0);
    fill(left.buffer(), 1);
    fill(right.buffer(), 2);
  }
  ~CopyEngine() override {
    // What hangs on copies that a failed test has left behind must end all the same.
    for (LateEngine* engine : {pair.left_engine, pair.right_engine}) {
      engine->finish();
      engine->finish_when_asked(1);
    }
  }

  [[nodiscard]] queue::Segment from_left(uint32_t length, size_t offset = 0) const {
    return {left.address() + offset, length, left.lkey()};
  }
  [[nodiscard]] Message write(OurMemory& to, size_t offset, uint32_t length, size_t from = 0) const {
    return {SendOperation::kWrite, from_left(length, from), to.address(offset), to.key()};
  }
  /// More turns than anything takes that need not wait.
  void run() {
    for (int i = 0; i < 100; ++i) {
      VirtualPair::advance(microseconds(1));
      pair.turn_all();
    }
  }
  /// `wanted`, and nothing else.
  static void expect(Side& side, const std::vector<std::pair<uint64_t, CompletionStatus>>& wanted) {
    for (const auto& [id, status] : wanted) {
      const auto completion = side.look();
      ASSERT_TRUE(completion) << "of " << id;
      EXPECT_EQ(completion->wr_id, id);
      EXPECT_EQ(completion->status, status) << "of " << id;
    }
    EXPECT_FALSE(side.look());
  }
  [[nodiscard]] bool same(OurMemory& memory, size_t offset, const std::vector<std::byte>& as, size_t length,
                          size_t from = 0) const {
    return std::memcmp(memory.at(offset), as.data() + from, length) == 0;
  }
  /// A new connection of the same two.
  void reconnect() { ASSERT_EQ(reconnect_pair(left, right), 0); }
  [[nodiscard]] uint64_t at_left(Counter counter) { return pair.counter(*pair.left_state, counter); }
  [[nodiscard]] uint64_t at_right(Counter counter) { return pair.counter(*pair.right_state, counter); }
  [[nodiscard]] TurnLock& right_lock() { return pair.right_state->pollers[0]->lock(); }
  void finish_right() {
    pair.right_engine->finish();
    pair.settle();
  }

  VirtualPair pair{{.late_engines = true}};
  Side left{pair.left, OurMemory::kBytes};
  Side right{pair.right, OurMemory::kBytes};
};

TEST_F(CopyEngine, Write_ExpectNothingOfItSeenBeforeItsCopiesHaveEnded) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  EXPECT_EQ(pair.right_engine->waiting(), 3u);
  EXPECT_TRUE(right_lock().paused());
  EXPECT_FALSE(left.look());
  EXPECT_EQ(*target.at(kLength - 1), std::byte{0});
  EXPECT_EQ(at_right(Counter::kTxFrames), 0u);
  EXPECT_EQ(pair.right_state->pollers[0]->time_to_deadline(), Duration{}) << "this is no time to sleep";
  EXPECT_TRUE(right_lock().paused()) << "asking has ended nothing";

  pair.right_engine->finish(2);
  run();
  EXPECT_EQ(*target.at(kLength - 1), std::byte{0});
  EXPECT_FALSE(left.look());

  finish_right();
  expect(left, {{1, CompletionStatus::kSuccess}});
  EXPECT_TRUE(same(target, 0, left.buffer(), kLength));
  EXPECT_FALSE(right_lock().paused());
  EXPECT_EQ(at_right(Counter::kEngineCopies), 3u);
  EXPECT_EQ(at_right(Counter::kEngineFailed), 0u);
}

TEST_F(CopyEngine, Send_ExpectItsReceiveCompleteOnlyThen) {
  OurMemory target(right);
  right.receive({target.part(0, kLength)}, 100);
  left.post({{SendOperation::kSend, from_left(kLength)}});
  run();
  EXPECT_FALSE(right.look());
  EXPECT_FALSE(left.look());
  finish_right();
  expect(right, {{100, CompletionStatus::kSuccess}});
  expect(left, {{1, CompletionStatus::kSuccess}});
  EXPECT_TRUE(same(target, 0, left.buffer(), kLength));
}

TEST_F(CopyEngine, Read_ExpectItCompleteOnlyThen) {
  OurMemory target(left);
  left.post({{SendOperation::kRead, target.part(0, kLength), right.address(), right.rkey()}});
  run();
  EXPECT_EQ(pair.left_engine->waiting(), 3u);
  EXPECT_FALSE(left.look());
  pair.left_engine->finish();
  pair.settle();
  expect(left, {{1, CompletionStatus::kSuccess}});
  EXPECT_TRUE(same(target, 0, right.buffer(), kLength));
  EXPECT_EQ(at_left(Counter::kEngineCopies), 3u);
}

TEST_F(CopyEngine, ReadOfWhatAWriteBeforeItPuts_ExpectItsBytes) {
  OurMemory target(right);
  std::vector<std::byte> expected(left.buffer().begin(), left.buffer().begin() + kLength);
  left.post({write(target, 0, kLength),
             {SendOperation::kRead, from_left(kLength, 30'000), target.address(0), target.key()}});
  run();
  EXPECT_EQ(at_right(Counter::kTxFrames), 0u);
  finish_right();
  expect(left, {{1, CompletionStatus::kSuccess}, {2, CompletionStatus::kSuccess}});
  EXPECT_EQ(std::memcmp(left.buffer().data() + 30'000, expected.data(), kLength), 0);
}

TEST_F(CopyEngine, OtherMemory_ExpectTheEngineUntouched) {
  left.post_write(right, kLength);
  pair.settle();
  expect(left, {{1, CompletionStatus::kSuccess}});
  EXPECT_EQ(pair.right_engine->submitted(), 0u);
  EXPECT_EQ(at_right(Counter::kEngineCopies), 0u);
}

TEST_F(CopyEngine, NextBurst_ExpectItReceivedButNotPerformed) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  const uint64_t performed = at_right(Counter::kRequestsExecuted);
  const uint64_t received = at_right(Counter::kRxFrames);
  left.post({write(target, 10'000, 200, 5'000)});
  right.receive({target.part(20'000, kLength)}, 100);
  left.post({{SendOperation::kSend, from_left(kLength, 7'000)}});
  run();
  EXPECT_EQ(at_right(Counter::kRequestsExecuted), performed);
  EXPECT_GT(at_right(Counter::kRxFrames), received);
  EXPECT_FALSE(same(target, 10'000, left.buffer(), 100, 5'000));

  pair.right_engine->finish();
  run();
  EXPECT_TRUE(left.look()) << "of the first";
  EXPECT_TRUE(same(target, 0, left.buffer(), kLength));
  EXPECT_FALSE(right.look()) << "the second burst is copied as well";
  EXPECT_TRUE(right_lock().paused());
  finish_right();
  EXPECT_TRUE(right.look());
  EXPECT_TRUE(same(target, 10'000, left.buffer(), 200, 5'000));
  EXPECT_TRUE(same(target, 20'000, left.buffer(), kLength, 7'000));
  EXPECT_EQ(at_left(Counter::kRetransmittedPackets), 0u);
}

TEST_F(CopyEngine, WritesOverEachOther_ExpectTheLastOnTop) {
  OurMemory target(right);
  for (size_t i = 0; i < 8; ++i) {
    // The copies below are complete when they were asked for some more times.
    pair.right_engine->finish_when_asked(3);
    left.post({write(target, 0, 2 * kMtu, i * 4'000), write(target, 500, 2 * kMtu, i * 4'000 + 1'000)});
    run();
    finish_right();
    EXPECT_TRUE(same(target, 0, left.buffer(), 500, i * 4'000));
    EXPECT_TRUE(same(target, 500, left.buffer(), 2 * kMtu, i * 4'000 + 1'000));
  }
  EXPECT_GT(at_right(Counter::kEngineCopies), 8u);
}

TEST_F(CopyEngine, Deregister_ExpectItToReturnOnlyWhenNothingIsCopiedAnyMore) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  ASSERT_TRUE(right_lock().paused());
  std::atomic<bool> returned = false;
  std::thread owner([&] {
    target.deregister();
    returned = true;
  });
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::yield();
    ASSERT_FALSE(returned) << "the engine still writes to it";
  }
  // No thread but the owner turns the poller.
  while (!right_lock().begin()) std::this_thread::yield();
  pair.right_engine->finish();
  right_lock().pause();
  owner.join();
  EXPECT_TRUE(same(target, 0, left.buffer(), kLength)) << "its end too: it was resolved before";
  pair.settle();
  expect(left, {{1, CompletionStatus::kSuccess}});
}

TEST_F(CopyEngine, EndOfTheQueuePair_ExpectItToWaitForTheCopies) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  left.post({write(target, 20'000, 8)});  // waits behind it
  run();
  pair.right_engine->finish_when_asked(50);
  right.disconnect();
  EXPECT_FALSE(right_lock().paused());
  EXPECT_EQ(pair.right_engine->waiting(), 0u);
  EXPECT_TRUE(same(target, 0, left.buffer(), kLength));
  EXPECT_TRUE(same(target, 20'000, left.buffer(), 8)) << "it had arrived before the end";
}

TEST_F(CopyEngine, EndOfTheDevice_ExpectTheEngineStoppedFirst) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  ASSERT_EQ(pair.right_engine->waiting(), 3u);
  ASSERT_TRUE(pair.right_state->pollers[0]->close(seconds(1)));
  EXPECT_TRUE(pair.right_engine->stopped());
  EXPECT_FALSE(pair.right_engine->overdue());
  EXPECT_EQ(pair.right_state->pollers[0]->turn(VirtualPair::now()), TurnOutcome::kBusy);
}

TEST_F(CopyEngine, FailedCopyOfAWrite_ExpectARemoteAccessErrorAndNothingBehindItSeen) {
  for (const size_t failing : {size_t{0}, size_t{1}, size_t{2}}) {
    SCOPED_TRACE(failing);
    OurMemory target(right);
    pair.right_engine->failing = {pair.right_engine->submitted() + failing};
    const uint64_t gone = at_right(Counter::kMemoryGone);
    right.receive({target.part(40'000, 100)}, 100);
    left.post({write(target, 0, 8), write(target, 1'000, kLength), write(target, 20'000, 8)});
    run();
    finish_right();
    expect(left, {{1, CompletionStatus::kSuccess},
                  {2, CompletionStatus::kRemoteAccessError},
                  {3, CompletionStatus::kFlushed}});
    expect(right, {{100, CompletionStatus::kFlushed}});
    EXPECT_TRUE(same(target, 0, left.buffer(), 8));
    EXPECT_FALSE(same(target, 1'000 + kLength - 8, left.buffer(), 8, kLength - 8));
    EXPECT_FALSE(same(target, 20'000, left.buffer(), 8));
    EXPECT_EQ(at_right(Counter::kMemoryGone), gone + 1);
    reconnect();
  }
  EXPECT_EQ(at_right(Counter::kEngineFailed), 3u);
}

TEST_F(CopyEngine, FailedCopyOfASend_ExpectTheReceiveFailedOnceAndTheRestFlushed) {
  // The copy is of the second packet; the SEND's last one is in the same burst, or comes later.
  for (const uint32_t length : {kLength, 40 * kMtu}) {
    SCOPED_TRACE(length);
    OurMemory target(right);
    pair.right_engine->failing = {pair.right_engine->submitted() + 1};
    right.receive({target.part(0, length), target.part(50'000, 100)}, 100);
    left.post({{SendOperation::kSend, from_left(length)}, {SendOperation::kSend, from_left(100)}});
    run();
    finish_right();
    expect(left, {{1, CompletionStatus::kRemoteOperationError}, {2, CompletionStatus::kFlushed}});
    expect(right, {{100, CompletionStatus::kLocalProtectionError}, {101, CompletionStatus::kFlushed}});
    reconnect();
  }
}

TEST_F(CopyEngine, FailedCopyOfARead_ExpectItFailedOnceAndTheRestFlushed) {
  for (const uint32_t length : {kLength, 40 * kMtu}) {
    SCOPED_TRACE(length);
    OurMemory target(left);
    pair.left_engine->failing = {pair.left_engine->submitted() + 1};
    left.post({{SendOperation::kRead, target.part(0, length), right.address(), right.rkey()},
               {SendOperation::kRead, target.part(50'000, 100), right.address(), right.rkey()}});
    run();
    pair.left_engine->finish();
    run();
    pair.left_engine->finish();
    pair.settle();
    expect(left, {{1, CompletionStatus::kLocalProtectionError}, {2, CompletionStatus::kFlushed}});
    EXPECT_FALSE(same(target, length - 8, right.buffer(), 8, length - 8));
    reconnect();
  }
  EXPECT_EQ(at_left(Counter::kMemoryGone), 2u);
}

TEST_F(CopyEngine, ThatNeverEnds_ExpectItStoppedAndTheCpuToGoOn) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  for (int ms = 0; ms < 900; ++ms) {
    VirtualPair::advance(milliseconds(1));
    pair.turn(*pair.right_state);
    if (ms == 0) pair.turn(*pair.left_state);
  }
  ASSERT_EQ(pair.right_engine->waiting(), 3u);
  EXPECT_FALSE(pair.right_engine->stopped());
  for (int ms = 0; ms < 200; ++ms) {
    VirtualPair::advance(milliseconds(1));
    pair.turn(*pair.right_state);
  }
  EXPECT_TRUE(pair.right_engine->overdue());
  EXPECT_EQ(at_right(Counter::kEngineFailed), 3u);
  pair.settle();
  expect(left, {{1, CompletionStatus::kRemoteAccessError}});

  reconnect();
  left.post({write(target, 20'000, kLength)});
  pair.settle();
  expect(left, {{1, CompletionStatus::kSuccess}});
  EXPECT_TRUE(same(target, 20'000, left.buffer(), kLength));
  EXPECT_EQ(at_right(Counter::kEngineCopies), 0u);
}

TEST_F(CopyEngine, TimeWithoutATurn_ExpectItNotToCount) {
  OurMemory target(right);
  left.post({write(target, 0, kLength)});
  run();
  for (int i = 0; i < 10; ++i) {
    VirtualPair::advance(seconds(3600));
    pair.turn(*pair.right_state);
  }
  EXPECT_FALSE(pair.right_engine->stopped());
  finish_right();
  expect(left, {{1, CompletionStatus::kSuccess}});
}

}  // namespace
}  // namespace uroce::engine
