// Which queue pair sends next, without a poller.
#include "engine/poller/send_scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace uroce::engine {
namespace {

constexpr uint32_t kLongBytes = 4170;  // a frame of a path MTU of 4096
constexpr uint32_t kShortBytes = 138;
constexpr uint32_t kQuantumFrames = SendScheduler::kQuantumBytes / kLongBytes;

class Sending : public testing::Test {
 protected:
  Sending() {
    for (uint32_t number = 2; number < 12; ++number) {
      entries.push_back(std::make_unique<QueuePairEntry>(
          qp::QueuePairOptions{.type = qp::Type::kRc, .number = {number}},
          queue::SendQueue::Ring({.depth = 4}), queue::ReceiveQueue::Ring({.depth = 4}),
          std::span<Poller* const>(), 0));
    }
  }

  QueuePairEntry& at(size_t index) { return *entries[index]; }
  /// Which one it is.
  std::optional<size_t> index_of(const QueuePairEntry* entry) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].get() == entry) return i;
    }
    return std::nullopt;
  }
  void add(std::initializer_list<size_t> indexes) {
    for (const size_t index : indexes) scheduler.has_work(at(index));
  }
  /// Who has a part in a round, in order.
  std::vector<size_t> round(const QueuePairEntry* posted = nullptr) {
    std::vector<size_t> order;
    frames.clear();
    SendScheduler::Round round = scheduler.begin_round();
    while (const QueuePairEntry* const entry = scheduler.next(round, posted)) {
      order.push_back(*index_of(entry));
      frames.push_back(round.frames);
    }
    return order;
  }
  void send(QueuePairEntry& entry, size_t count, uint32_t bytes, bool more) {
    scheduler.sent(
        entry, {.now = now, .frames = count, .frame_bytes = bytes, .more = more, .awaits_responses = true});
  }
  void send_long(size_t index) { send(at(index), 4, kLongBytes, true); }
  void send_short(size_t index) { send(at(index), 1, kShortBytes, false); }
  /// Until long messages, of queue pair 0, wait for short ones.
  void mix() {
    send_long(0);
    for (uint32_t i = 0; i < SendScheduler::kShortMessages; ++i) send_short(1 + i % 2);
  }

  Instant now{1'000'000'000};
  std::vector<std::unique_ptr<QueuePairEntry>> entries;
  SendScheduler scheduler{false};
  std::vector<uint32_t> frames;  // in the last round
};

using Order = std::vector<size_t>;

TEST_F(Sending, ThoseWithWorkTakeTurns) {
  EXPECT_TRUE(scheduler.empty());
  add({0, 1, 2, 1});
  EXPECT_EQ(scheduler.size(), 3u) << "each is there once";
  EXPECT_EQ(round(), (Order{0, 1, 2}));
  EXPECT_TRUE(scheduler.empty()) << "until they say that they have more";
  EXPECT_EQ(round(), Order{});
  EXPECT_EQ(frames, std::vector<uint32_t>{});
}

TEST_F(Sending, OneThatHasMoreComesLast) {
  add({0, 1});
  SendScheduler::Round round = scheduler.begin_round();
  QueuePairEntry* const first = scheduler.next(round, nullptr);
  EXPECT_EQ(round.frames, SendScheduler::kFrames);
  add({2, 0});
  EXPECT_EQ(first, &at(0));
  EXPECT_EQ(scheduler.next(round, nullptr), &at(1));
  EXPECT_EQ(scheduler.next(round, nullptr), nullptr) << "those who came since have the next round";
  EXPECT_EQ(this->round(), (Order{2, 0}));
}

TEST_F(Sending, OneWithoutWorkHasNoTurn) {
  add({0, 1, 2});
  scheduler.has_none(at(1));
  scheduler.has_none(at(5));
  EXPECT_EQ(round(), (Order{0, 2}));
}

TEST_F(Sending, FewFillABurstWhereItIsDear) {
  SendScheduler fills{true};
  const auto frames_of = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) fills.has_work(at(i));
    SendScheduler::Round round = fills.begin_round();
    while (fills.next(round, nullptr) != nullptr) {
    }
    return round.frames;
  };
  EXPECT_EQ(frames_of(1), port::TxBatch::kFramesMax);
  EXPECT_EQ(frames_of(2), port::TxBatch::kFramesMax / 2);
  EXPECT_EQ(frames_of(8), SendScheduler::kFrames);
}

TEST_F(Sending, LongMessagesAloneHaveWholeTurns) {
  for (int i = 0; i < 1000; ++i) {
    send_long(0);
    send_long(1);
  }
  EXPECT_FALSE(scheduler.mixed());
  add({0, 1});
  EXPECT_EQ(round(&at(1)), (Order{0, 1}));
  EXPECT_EQ(frames, (std::vector{SendScheduler::kFrames, SendScheduler::kFrames}));
}

TEST_F(Sending, LongMessagesBesideShortOnesSendAQuantum) {
  mix();
  ASSERT_TRUE(scheduler.mixed());
  add({0, 1, 2});
  EXPECT_EQ(round(), (Order{0, 1, 2}));
  EXPECT_EQ(frames, (std::vector{kQuantumFrames, SendScheduler::kFrames, SendScheduler::kFrames}));
}

TEST_F(Sending, LongMessagesWaitInATurnForThePostOfAnother) {
  mix();
  add({0, 1});
  EXPECT_EQ(round(&at(1)), Order{1});
  EXPECT_EQ(scheduler.size(), 1u) << "it keeps its work";
  EXPECT_EQ(round(&at(0)), Order{0}) << "and its own post is not of another";
  // One that has sent all begins a message with its next frame, which may be a short one.
  send(at(0), 4, kLongBytes, false);
  add({0, 1});
  EXPECT_EQ(round(&at(1)), (Order{0, 1}));
}

TEST_F(Sending, AFewShortMessagesAreNotWorthIt) {
  send_long(0);
  for (uint32_t i = 1; i < SendScheduler::kShortMessages; ++i) send_short(1 + i % 2);
  EXPECT_FALSE(scheduler.mixed());
  now = now + SendScheduler::kMixedFor + nanoseconds(1);
  send_long(0);
  send_short(1);
  EXPECT_FALSE(scheduler.mixed()) << "those of before are too old";
}

TEST_F(Sending, ShortMessagesWithoutLongOnesAreNoMixture) {
  for (uint32_t i = 0; i < 10 * SendScheduler::kShortMessages; ++i) send_short(1 + i % 2);
  EXPECT_FALSE(scheduler.mixed());
}

TEST_F(Sending, AcknowledgementsAndPartsOfMessagesAreNoShortMessages) {
  send_long(0);
  for (uint32_t i = 0; i < 10 * SendScheduler::kShortMessages; ++i) {
    QueuePairEntry& entry = at(1 + i % 2);
    scheduler.sent(entry, {.now = now, .frames = 1, .frame_bytes = kShortBytes});
    send(entry, 1, kShortBytes, true);
    send(entry, SendScheduler::kShortFrames + 1, kShortBytes, false);
  }
  EXPECT_FALSE(scheduler.mixed());
}

TEST_F(Sending, TheMixtureEndsWhenNoShortMessagesCome) {
  mix();
  now = now + SendScheduler::kMixedFor - nanoseconds(1);
  EXPECT_TRUE(scheduler.still_mixed(now));
  now = now + nanoseconds(1);
  EXPECT_FALSE(scheduler.still_mixed(now));
  EXPECT_FALSE(scheduler.mixed());
  add({0});
  EXPECT_EQ(round(&at(1)), Order{0});
  EXPECT_EQ(frames, std::vector{SendScheduler::kFrames});
}

TEST_F(Sending, OnlyTheSenderThatWasLastIsTakenForTheOnlyOne) {
  EXPECT_FALSE(scheduler.is_lone(at(0)));
  send_short(0);
  EXPECT_TRUE(scheduler.is_lone(at(0)));
  send_short(1);
  EXPECT_TRUE(scheduler.is_lone(at(1)));
  EXPECT_FALSE(scheduler.is_lone(at(0)));
  mix();
  EXPECT_FALSE(scheduler.is_lone(at(1)) || scheduler.is_lone(at(2)));
}

TEST_F(Sending, OneThatMovesAwayBeginsAnewElsewhere) {
  mix();
  add({0, 1});
  scheduler.forget(at(0));
  EXPECT_EQ(round(), Order{1});
  add({0});
  EXPECT_EQ(round(&at(1)), Order{0});
  EXPECT_EQ(frames, std::vector{SendScheduler::kFrames}) << "its frames may be short";
}

}  // namespace
}  // namespace uroce::engine
