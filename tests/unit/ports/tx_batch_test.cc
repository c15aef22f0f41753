// The frames of a turn: which buffers they lie in, and that none is lost.
#include "port/tx_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <vector>

namespace uroce::port {
namespace {

/// Gives numbered buffers, as many as there are.
class Buffers final : public PortQueue {
 public:
  explicit Buffers(size_t count) : memory_(count) {
    for (std::byte& buffer : memory_) free_.push_back(&buffer);
  }
  ~Buffers() override { EXPECT_EQ(free_.size(), memory_.size()) << "some never came back"; }

  uint16_t receive(std::span<RxFrame>) override { return 0; }
  void release(std::span<const RxFrame>) override {}
  uint16_t allocate(std::span<TxFrame> frames) override {
    ++asked;
    const size_t count = std::min(frames.size(), free_.size());
    for (TxFrame& frame : frames.first(count)) {
      frame = {.data = free_.back(), .capacity = 1, .length = 0, .handle = free_.back()};
      free_.pop_back();
    }
    return static_cast<uint16_t>(count);
  }
  uint16_t transmit(std::span<const TxFrame>) override { return 0; }
  void free(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) free_.push_back(frame.data);
  }
  RxFrame loop(const TxFrame&) override { return {}; }

  [[nodiscard]] size_t left() const { return free_.size(); }
  int asked = 0;

 private:
  std::vector<std::byte> memory_;
  std::vector<std::byte*> free_;
};

/// Writes frames of the lengths that come next; how many the batch took.
size_t write(TxBatch& batch, size_t count, uint32_t& next_length) {
  for (size_t i = 0; i < count; ++i) {
    TxFrame* const frame = batch.next();
    if (frame == nullptr) return i;
    frame->length = ++next_length;
    batch.commit();
  }
  return count;
}

/// The first `count` frames go, and are the next that were written.
void send(Buffers& buffers, TxBatch& batch, size_t count, uint32_t& next_length) {
  for (const TxFrame& frame : batch.frames().first(count)) {
    EXPECT_EQ(frame.length, ++next_length);
    buffers.free({&frame, 1});
  }
  batch.consume(count);
}

TEST(TxBatch, AFullBatchHasNotRunDry) {
  Buffers buffers(2 * TxBatch::kFramesMax);
  TxBatch batch(buffers);
  uint32_t length = 0;
  EXPECT_EQ(write(batch, TxBatch::kFramesMax + 1, length), TxBatch::kFramesMax);
  EXPECT_FALSE(batch.take_ran_dry());
}

TEST(TxBatch, HoldsSoManyFramesAndNoMore) {
  Buffers buffers(2 * TxBatch::kFramesMax);
  TxBatch batch(buffers);
  uint32_t written = 0;
  uint32_t sent = 0;
  EXPECT_EQ(write(batch, TxBatch::kFramesMax + 1, written), TxBatch::kFramesMax);
  EXPECT_TRUE(batch.full());
  // Room at the front is room again, behind what could not be sent.
  send(buffers, batch, 10, sent);
  EXPECT_FALSE(batch.full());
  EXPECT_EQ(write(batch, 11, written), 10u);
  EXPECT_TRUE(batch.full());
  send(buffers, batch, TxBatch::kFramesMax, sent);
  EXPECT_TRUE(batch.empty());
}

TEST(TxBatch, KeepsTheOrderWhateverIsLeftAfterEachTurn) {
  Buffers buffers(TxBatch::kFramesMax + 7);
  TxBatch batch(buffers);
  uint32_t written = 0;
  uint32_t sent = 0;
  for (size_t turn = 0; turn < 500; ++turn) {
    write(batch, turn * 7 % 40, written);
    std::set<const std::byte*> used;
    for (const TxFrame& frame : batch.frames()) EXPECT_TRUE(used.insert(frame.data).second) << "used twice";
    send(buffers, batch, turn * 11 % (batch.size() + 1), sent);
  }
  send(buffers, batch, batch.size(), sent);
  EXPECT_EQ(sent, written);
}

TEST(TxBatch, AsksForBuffersOnceATurn) {
  Buffers buffers(2 * TxBatch::kFramesMax);
  TxBatch batch(buffers);
  uint32_t written = 0;
  uint32_t sent = 0;
  const auto turn = [&](size_t frames) {
    const int before = buffers.asked;
    EXPECT_EQ(write(batch, frames, written), frames);
    send(buffers, batch, frames, sent);
    return buffers.asked - before;
  };
  // It learns how many it takes, in the first turn by and by.
  EXPECT_LE(turn(TxBatch::kFramesMax), 7);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(turn(TxBatch::kFramesMax), 1);
}

TEST(TxBatch, TakesFewBuffersForTurnsOfFewFrames) {
  Buffers buffers(2 * TxBatch::kFramesMax);
  TxBatch batch(buffers);
  uint32_t written = 0;
  uint32_t sent = 0;
  // As large as turns once were, it does not stay.
  for (size_t turn = 0; turn < 200; ++turn) {
    const size_t frames = turn == 0 ? TxBatch::kFramesMax : 1;
    EXPECT_EQ(write(batch, frames, written), frames);
    send(buffers, batch, frames, sent);
  }
  EXPECT_GE(buffers.left(), 2 * TxBatch::kFramesMax - 8);
}

TEST(TxBatch, APortWithoutBuffersIsAskedAgainLater) {
  Buffers buffers(3);
  TxBatch batch(buffers);
  uint32_t written = 0;
  uint32_t sent = 0;
  EXPECT_EQ(write(batch, 5, written), 3u);
  EXPECT_FALSE(batch.full());
  EXPECT_EQ(batch.next(), nullptr);
  EXPECT_TRUE(batch.take_ran_dry());
  EXPECT_FALSE(batch.take_ran_dry());
  send(buffers, batch, 2, sent);
  EXPECT_EQ(write(batch, 5, written), 2u);
  send(buffers, batch, 3, sent);
  EXPECT_EQ(sent, written);
}

void note_step(std::byte* data, size_t bytes, uint32_t seed) {
  data[0] = static_cast<std::byte>(bytes + seed);
}

/// What is put off is done once: when the next frame's is, or when the batch is asked for its frames.
TEST(TxBatch, FinishesFramesBeforeItGivesThemOut) {
  Buffers buffers(4);
  TxBatch batch(buffers);
  std::array<std::byte, 3> done{};
  uint32_t length = 0;
  for (size_t i = 0; i < done.size(); ++i) {
    batch.finish_later(note_step, &done[i], i, 1);
    EXPECT_EQ(done[i], std::byte{0}) << "not yet";
    if (i > 0) {
      EXPECT_EQ(done[i - 1], static_cast<std::byte>(i));
    }
    ASSERT_EQ(write(batch, 1, length), 1u);
    EXPECT_EQ(batch.size(), i + 1) << "may be asked without finishing";
    EXPECT_EQ(done[i], std::byte{0});
  }
  EXPECT_EQ(batch.frames().size(), done.size());
  EXPECT_EQ(done.back(), std::byte{3});
  done.back() = {};
  batch.finish();
  EXPECT_EQ(done.back(), std::byte{0}) << "only once";
}

}  // namespace
}  // namespace uroce::port
