// Which queue pair sends next, without a poller.
#include "engine/poller/send_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
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
      entries.push_back(
          std::make_unique<PollerQp>(qp::QueuePairOptions{.type = qp::Type::kRc, .number = {number}},
                                     queue::SendQueue::Ring({.depth = 4}),
                                     queue::ReceiveQueue::Ring({.depth = 4}), std::span<Poller* const>(), 0));
    }
  }

  PollerQp& at(size_t index) { return *entries[index]; }
  /// Which one it is.
  std::optional<size_t> index_of(const PollerQp* entry) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].get() == entry) return i;
    }
    return std::nullopt;
  }
  void add(std::initializer_list<size_t> indexes) {
    for (const size_t index : indexes) scheduler.has_work(at(index));
  }
  /// Who has a part in a round, in order.
  std::vector<size_t> round(const PollerQp* posted = nullptr) {
    std::vector<size_t> order;
    frames.clear();
    SendScheduler::Round round = scheduler.begin_round();
    while (const PollerQp* const entry = scheduler.next(round, posted)) {
      order.push_back(*index_of(entry));
      frames.push_back(round.frames);
    }
    return order;
  }
  void send(PollerQp& entry, size_t count, uint32_t bytes, bool more) {
    scheduler.sent(entry, {.now = now,
                           .frames = count,
                           .bytes = static_cast<uint32_t>(count * bytes),
                           .frame_bytes = bytes,
                           .more = more,
                           .awaits_responses = true});
  }
  void send_long(size_t index) { send(at(index), 4, kLongBytes, true); }
  void send_short(size_t index) { send(at(index), 1, kShortBytes, false); }
  /// A round, in which those have as much to send as they may, in frames of so many bytes; `only`, unless it
  /// is 0: so many frames at most.
  struct Flow {
    size_t index;
    uint32_t frame_bytes;
    size_t only = 0;
    uint64_t sent = 0;  // bytes
    uint64_t visits = 0;
  };
  void run(std::span<Flow> flows) {
    for (const Flow& flow : flows) add({flow.index});
    SendScheduler::Round round = scheduler.begin_round();
    while (PollerQp* const entry = scheduler.next(round, nullptr)) {
      const auto flow = std::ranges::find(flows, *index_of(entry), &Flow::index);
      ASSERT_NE(flow, flows.end());
      const bool more = flow->only == 0 || flow->only > round.frames;
      const size_t count = more ? round.frames : flow->only;
      flow->sent += count * flow->frame_bytes;
      ++flow->visits;
      send(*entry, count, flow->frame_bytes, more);
      if (more) scheduler.has_work(*entry);
    }
  }

  /// Until long messages, of queue pair 0, wait for short ones.
  void mix() {
    add({0});
    round();
    send_long(0);
    for (uint32_t i = 0; i < SendScheduler::kShortMessages; ++i) send_short(1 + i % 2);
  }

  Instant now{1'000'000'000};
  std::vector<std::unique_ptr<PollerQp>> entries;
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
  PollerQp* const first = scheduler.next(round, nullptr);
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

TEST_F(Sending, LongMessagesOfTwoTakeTurnsByQuanta) {
  for (int i = 0; i < 1000; ++i) {
    send_long(0);
    send_long(1);
  }
  EXPECT_FALSE(scheduler.mixed());
  send(at(0), 4, kLongBytes, false);
  send(at(1), 4, kLongBytes, false);
  send_short(2);
  add({0, 1});
  EXPECT_EQ(round(&at(1)), (Order{0, 1}));
  EXPECT_EQ(frames, (std::vector{kQuantumFrames, kQuantumFrames}));
}

TEST_F(Sending, ALoneQueuePairIsNotHeldBack) {
  std::array flows{Flow{0, kLongBytes}};
  for (int i = 0; i < 100; ++i) run(flows);
  // Its first visit is by an unknown length, and each one after it is of all frames.
  EXPECT_EQ(flows[0].sent, 100u * SendScheduler::kFrames * kLongBytes);
}

TEST_F(Sending, FramesOfAllLengthsShareBytes) {
  for (const uint32_t other : {9000u, 4170u, 2122u, 1500u, 1098u}) {
    std::array flows{Flow{0, kLongBytes}, Flow{1, other}, Flow{2, 3000}};
    for (int i = 0; i < 1000; ++i) run(flows);
    const auto [least, most] = std::ranges::minmax(flows, {}, &Flow::sent);
    EXPECT_LE(most.sent - least.sent, 6u * SendScheduler::kQuantumBytes) << other;
    for (const Flow& flow : flows) scheduler.forget(at(flow.index));
  }
}

/// 64 B and 64 KiB messages: by bytes, of which a short frame counts as some.
TEST_F(Sending, ShortFramesCountAsSomeBytes) {
  std::array flows{Flow{0, kLongBytes}, Flow{1, kShortBytes}};
  for (int i = 0; i < 1000; ++i) run(flows);
  const double charged = static_cast<double>(flows[1].sent / kShortBytes) * SendScheduler::kLeastCharge;
  EXPECT_NEAR(static_cast<double>(flows[0].sent) / charged, 1, 0.01);
}

/// A frame that is longer than what a visit pays for goes, and is paid for by the visits after it.
TEST_F(Sending, AFrameLongerThanTheQuantumIsOwed) {
  constexpr uint32_t kGiant = 4 * SendScheduler::kQuantumBytes;
  std::array flows{Flow{0, kGiant}, Flow{1, kLongBytes}};
  for (int i = 0; i < 1600; ++i) run(flows);
  EXPECT_NEAR(static_cast<double>(flows[0].sent) / static_cast<double>(flows[1].sent), 1, 0.02);
  EXPECT_LT(flows[0].visits, flows[1].visits / 4);
}

/// Its window or its pace holds a queue pair back: it leaves the ring, and saves nothing up for later.
TEST_F(Sending, OneThatIsHeldBackSavesNothingUp) {
  std::array flows{Flow{0, kLongBytes}, Flow{1, kLongBytes, 1}};
  for (int i = 0; i < 1000; ++i) run(flows);
  EXPECT_EQ(flows[1].sent, 1000u * kLongBytes);
  EXPECT_GE(flows[0].sent, 1000u * (kQuantumFrames - 1) * kLongBytes) << "the other one has the rest";
  flows[0].sent = flows[1].sent = 0;
  flows[1].only = 0;
  run(flows);
  EXPECT_EQ(flows[1].sent, kQuantumFrames * kLongBytes);
}

/// Its peer takes nothing, for longer than a counter of visits would last.
TEST_F(Sending, OneThatCannotSendSavesOneQuantum) {
  add({0, 1});
  round();
  send_long(0);
  send_long(1);
  for (int i = 0; i < 300'000; ++i) {
    at(0).deficit = 0;
    add({0, 1});
    round();
    send_long(0);
  }
  add({1});
  round();
  EXPECT_LE(at(1).deficit, 2 * SendScheduler::kQuantumBytes);
  EXPECT_GT(at(1).deficit, 0);
}

/// In a turn for its own post a queue pair sends although it owes; in others it waits.
TEST_F(Sending, OneThatOwesSendsInTheTurnForItsPost) {
  add({0, 1});
  round();
  send(at(1), 16, kLongBytes, true);
  send_long(0);
  const int32_t owed = at(1).deficit;
  ASSERT_LT(owed, -SendScheduler::kQuantumBytes);
  add({1, 0});
  EXPECT_EQ(round(), (std::vector<size_t>{0}));
  at(1).deficit = owed;
  scheduler.has_none(at(1));
  add({1, 0});
  EXPECT_EQ(round(&at(1)), (std::vector<size_t>{1, 0}));
}

/// The last frame of a message is short: the mean of the visit tells what the next ones will be.
TEST_F(Sending, AShortTailDoesNotMakeLongFramesCheap) {
  add({0, 1});
  round();
  send_long(0);
  scheduler.sent(at(1), {.now = now,
                         .frames = 16,
                         .bytes = 15 * kLongBytes + kShortBytes,
                         .frame_bytes = kShortBytes,
                         .more = false,
                         .awaits_responses = true});
  EXPECT_GE(at(1).frame_bytes, SendScheduler::kLongFrame);
}

TEST_F(Sending, OneThatIsDestroyedLeavesTheRing) {
  std::array flows{Flow{0, kLongBytes}, Flow{1, kLongBytes}, Flow{2, kLongBytes}};
  run(flows);
  scheduler.has_none(at(1));
  entries[1].reset();
  std::array left{Flow{0, kLongBytes}, Flow{2, kLongBytes}};
  for (int i = 0; i < 100; ++i) run(left);
  EXPECT_EQ(left[0].visits, left[1].visits);
  EXPECT_EQ(scheduler.size(), 2u);
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
    PollerQp& entry = at(1 + i % 2);
    scheduler.sent(entry, {.now = now, .frames = 1, .bytes = kShortBytes, .frame_bytes = kShortBytes});
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
  EXPECT_EQ(frames, std::vector{kQuantumFrames});
  send_long(0);
  add({0});
  EXPECT_EQ(round(&at(1)), Order{0});
  EXPECT_EQ(frames, std::vector{SendScheduler::kFrames}) << "no other one has sent since";
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
