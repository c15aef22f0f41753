// Queue pairs that follow their packets, step by step. tests/sim has the traffic.
#include "engine/poller/queue_pair_moves.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

PollerQp& entry_of(const Side& side) { return static_cast<PollerQp&>(side.queue_pair()); }

/// A pair of queue pairs, the right one of which gets its packets at another poller than its own.
class Crossed {
 public:
  static constexpr uint32_t kBytes = 100;
  static constexpr uint32_t kRegionBytes = 100'000;

  Crossed() {
    // Each hashes to one of two queues, and the right ones are given to the pollers in turn.
    for (int i = 0; i < 16 && left == nullptr; ++i) {
      auto one = std::make_unique<Side>(pair.left, kRegionBytes);
      auto other = std::make_unique<Side>(pair.right, kRegionBytes);
      EXPECT_EQ(connect_pair(*one, *other), 0);
      const uint64_t before = handed_over();
      one->post_write(*other, kBytes);
      pair.settle();
      EXPECT_TRUE(one->look());
      if (handed_over() > before) {
        left = std::move(one);
        right = std::move(other);
      } else {
        others.push_back(std::move(one));
        others.push_back(std::move(other));
      }
    }
    home = left != nullptr ? &entry_of(*right).poller() : nullptr;
  }

  [[nodiscard]] uint64_t handed_over() const {
    return pair.counter(*pair.right_state, Counter::kRxHandedOver);
  }
  [[nodiscard]] uint64_t moved() const {
    return pair.counter(*pair.left_state, Counter::kQpMoved) +
           pair.counter(*pair.right_state, Counter::kQpMoved);
  }
  [[nodiscard]] bool right_moved() const { return &entry_of(*right).poller() != home; }
  [[nodiscard]] bool right_is_on_its_way() const {
    for (const auto& poller : pair.right_state->pollers)
      if (entry_of(*right).is_of(poller->index())) return false;
    return true;
  }

  /// One message that is settled, and so one packet that comes alone.
  void exchange() {
    left->post_write(*right, kBytes, ++posted);
    pair.settle();
    const auto completion = left->look();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->wr_id, posted);
    EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
  }
  /// Until the poller of the right queue pair has asked for a move, with nothing settled since.
  void exchange_until_asked() {
    for (int i = 0; i < 1000 && !asked(); ++i) {
      left->post_write(*right, kBytes, ++posted);
      for (int turns = 0; turns < 20 && !asked(); ++turns) turn_right_then_left();
      while (left->look()) {
      }
    }
    ASSERT_TRUE(asked());
  }
  /// One poller of the right device at a time.
  void turn_right_then_left() {
    for (const auto& poller : pair.right_state->pollers) {
      poller->turn(VirtualPair::now());
      if (asked()) return;
    }
    pair.turn(*pair.left_state);
    VirtualPair::advance(microseconds(1));
  }
  [[nodiscard]] bool asked() const { return home->time_to_deadline() == Duration{} && right_has_mail(); }
  /// The poller that the packets come to has been told something.
  [[nodiscard]] bool right_has_mail() const {
    for (const auto& poller : pair.right_state->pollers)
      if (poller.get() != home && poller->time_to_deadline() == Duration{}) return true;
    return false;
  }

  /// One whose doorbell is left to the caller.
  void publish_write_of_right() {
    queue::SendQueue& queue = right->queue_pair().send_queue;
    queue::SendRequest* request = queue.reserve();
    ASSERT_NE(request, nullptr);
    request->wr_id = 9;
    request->operation = queue::SendOperation::kWrite;
    request->length = kBytes;
    request->remote_address = left->address();
    request->rkey = left->rkey();
    request->segments = 1;
    request->signaled = true;
    queue.segments(*request)[0] = {right->address(), kBytes, right->lkey()};
    queue.publish();
  }

  VirtualPair pair{{.pollers = 2}};
  std::vector<std::unique_ptr<Side>> others;
  std::unique_ptr<Side> left;
  std::unique_ptr<Side> right;
  Poller* home = nullptr;  // of the right one, at first
  uint64_t posted = 0;
};

TEST(QueuePairMoves, FollowsItsPackets) {
  Crossed crossed;
  ASSERT_NE(crossed.left, nullptr);
  int exchanges = 0;
  for (; exchanges < 1000 && !crossed.right_moved(); ++exchanges) crossed.exchange();
  ASSERT_TRUE(crossed.right_moved());
  EXPECT_GE(exchanges, 30) << "a few packets are no reason";
  EXPECT_LE(exchanges, 130);
  EXPECT_EQ(crossed.pair.counter(*crossed.pair.right_state, Counter::kQpMoved), 1u);

  const uint64_t before = crossed.handed_over();
  for (int i = 0; i < 100; ++i) crossed.exchange();
  EXPECT_EQ(crossed.handed_over(), before) << "its packets find it where they come";
  EXPECT_EQ(crossed.pair.counter(*crossed.pair.left_state, Counter::kRetransmittedPackets), 0u);
}

/// More of them wait at its last poller than that one receives in the turn in which it could let go.
void move_with_packets_waiting(int exchanges_before) {
  Crossed crossed;
  ASSERT_NE(crossed.left, nullptr);
  for (int i = 0; i < exchanges_before; ++i) crossed.exchange();
  DeviceState& right = *crossed.pair.right_state;
  Poller& other = *right.pollers[1 - crossed.home->index()];
  for (int round = 0; round < 1000 && !crossed.right_moved(); ++round) {
    // 98 packets each.
    for (int i = 0; i < 2; ++i)
      crossed.left->post_write(*crossed.right, Crossed::kRegionBytes, ++crossed.posted);
    for (int i = 0; i < 20; ++i) {
      crossed.pair.turn(*crossed.pair.left_state);
      other.turn(VirtualPair::now());
    }
    // One more comes to the one each time that the other has taken a part of what waits.
    for (int i = 0; i < 4; ++i) {
      crossed.left->post_write(*crossed.right, Crossed::kBytes, ++crossed.posted);
      crossed.pair.turn_all();
      VirtualPair::advance(microseconds(1));
    }
    crossed.pair.settle();
    while (crossed.left->look()) {
    }
  }
  EXPECT_TRUE(crossed.right_moved());
  EXPECT_EQ(crossed.pair.counter(right, Counter::kRxEarly), 0u);
  EXPECT_EQ(crossed.pair.counter(right, Counter::kDropSequence), 0u);
  EXPECT_EQ(crossed.pair.counter(right, Counter::kDropStalled), 0u);
}

TEST(QueuePairMoves, PacketsThatWaitForItKeepTheirOrder) {
  // So that it is asked for at one burst or another.
  for (int exchanges_before = 0; exchanges_before < 16; ++exchanges_before) {
    SCOPED_TRACE(exchanges_before);
    move_with_packets_waiting(exchanges_before);
  }
}

/// A program destroys or queries a queue pair at any time, and a tool asks for its row.
TEST(QueuePairMoves, EndsAtAnyStepOfIt) {
  bool on_its_way = false;
  for (size_t turns = 0; turns < 8; ++turns) {
    Crossed crossed;
    ASSERT_NE(crossed.left, nullptr);
    crossed.exchange_until_asked();
    for (size_t i = 0; i < turns; ++i) {
      // Its owner and the other one in turns.
      Poller& next = *crossed.pair.right_state->pollers[(i + 1 + crossed.home->index()) % 2];
      next.turn(VirtualPair::now());
    }
    on_its_way |= crossed.right_is_on_its_way();
    std::array<host::QueuePairRow, 1> rows;
    EXPECT_EQ(crossed.pair.right_state->describe_queue_pairs(rows, entry_of(*crossed.right).number), 1u);
    EXPECT_EQ(crossed.pair.right->query_queue_pair(crossed.right->queue_pair()).state, qp::State::kRts);
    crossed.right.reset();
    crossed.pair.settle();
    crossed.pair.turn_all();
  }
  EXPECT_TRUE(on_its_way) << "one of these steps";
}

/// A process that ends has told its peer what it received, also of a queue pair that moves just then.
TEST(QueuePairMoves, WhatItOwesIsSentWhenPollersClose) {
  Crossed crossed;
  ASSERT_NE(crossed.left, nullptr);
  DeviceState& right = *crossed.pair.right_state;
  Poller& other = *right.pollers[1 - crossed.home->index()];
  PollerQp& entry = entry_of(*crossed.right);
  // A program that replies at once, so that the ACK waits for its reply.
  for (int i = 0; i < 1000 && !crossed.asked(); ++i) {
    crossed.left->post_write(*crossed.right, Crossed::kBytes, ++crossed.posted);
    crossed.pair.turn(*crossed.pair.left_state);
    other.turn(VirtualPair::now());
    crossed.home->application_turn(VirtualPair::now(), nullptr);
    if (i < 100) entry.rss_mismatch.forget();
    if (crossed.asked()) break;
    crossed.publish_write_of_right();
    crossed.home->application_turn(VirtualPair::now(), &entry);
    crossed.pair.settle();
    ASSERT_TRUE(crossed.left->look());
    ASSERT_TRUE(crossed.right->look());
  }
  ASSERT_TRUE(crossed.asked());
  other.turn(VirtualPair::now());
  crossed.home->turn(VirtualPair::now());
  ASSERT_TRUE(crossed.right_is_on_its_way());
  crossed.pair.turn(*crossed.pair.left_state);
  ASSERT_FALSE(crossed.left->look()) << "there would be nothing to be sent";

  for (const auto& poller : right.pollers) EXPECT_TRUE(poller->close(seconds(1)));
  for (int i = 0; i < 4; ++i) crossed.pair.turn(*crossed.pair.left_state);
  const auto completion = crossed.left->look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->wr_id, crossed.posted);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
}

/// What a queue pair of one poller is made of.
struct Bare {
  Bare() : completions({.depth = 4, .lanes = 3}) {}

  queue::CompletionQueue completions;

  [[nodiscard]] qp::QueuePair::Options options() {
    return {.send_completions = &completions, .receive_completions = &completions};
  }
};

/// Its poller takes it back and it is destroyed, but the poller that expects it hears a third one first.
TEST(QueuePairMoves, ADestroyedOneIsNotLookedAt) {
  std::array<HandOff, 3> hand_offs;
  std::array<QueuePairMoves, 3> moves{QueuePairMoves{hand_offs[0]}, QueuePairMoves{hand_offs[1]},
                                      QueuePairMoves{hand_offs[2]}};
  const std::array all_hand_offs{&hand_offs[0], &hand_offs[1], &hand_offs[2]};
  const std::array all{&moves[0], &moves[1], &moves[2]};
  for (uint16_t i = 0; i < 3; ++i) {
    hand_offs[i].join(i, all_hand_offs);
    moves[i].join(i, all);
  }
  Bare of_first;
  Bare of_second;
  const auto make = [](std::optional<PollerQp>& memory, Bare& of, uint16_t poller) {
    return &memory.emplace(of.options(), queue::SendQueue::Ring({.depth = 4}),
                           queue::ReceiveQueue::Ring({.depth = 4}), std::span<Poller* const>{}, poller);
  };
  std::optional<PollerQp> memory;
  std::optional<PollerQp> alike;
  std::optional<PollerQp> second;
  PollerQp* const destroyed = make(memory, of_first, 1);
  moves[2].begin_coming(*destroyed);
  make(alike, of_first, 0);
  EXPECT_FALSE(moves[2].may_come(*alike)) << "a completion queue has one that comes at a time";

  // Its memory is another one's by now.
  moves[1].tell(2, {.kind = MoveMessage::Kind::kTakeBack, .entry = destroyed});
  memory.reset();
  make(memory, of_second, 1);
  moves[0].tell(2, {.kind = MoveMessage::Kind::kAsk, .entry = make(second, of_second, 0)});
  std::vector<MoveMessage::Kind> heard;
  moves[2].take([&](uint16_t, const MoveMessage& message) {
    heard.push_back(message.kind);
    if (message.kind == MoveMessage::Kind::kTakeBack) return moves[2].end_coming(*message.entry);
    EXPECT_TRUE(moves[2].may_come(*message.entry));
  });
  EXPECT_EQ(heard, (std::vector{MoveMessage::Kind::kAsk, MoveMessage::Kind::kTakeBack}));
  EXPECT_TRUE(moves[2].may_come(*alike)) << "taken back";
}

/// A thread that posts has read who its poller is before the queue pair moved.
TEST(QueuePairMoves, ADoorbellAtTheLastPollerIsHeard) {
  Crossed crossed;
  ASSERT_NE(crossed.left, nullptr);
  for (int i = 0; i < 1000 && !crossed.right_moved(); ++i) crossed.exchange();
  ASSERT_TRUE(crossed.right_moved());
  Side& right = *crossed.right;
  crossed.publish_write_of_right();
  crossed.home->ring(entry_of(right));
  crossed.pair.settle();
  auto completion = right.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);

  // The same by a turn that is made for the post.
  crossed.publish_write_of_right();
  crossed.home->application_turn(VirtualPair::now(), &entry_of(right));
  crossed.pair.settle();
  completion = right.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);

  // And when the queue pair ends while the doorbell is still there.
  crossed.home->ring(entry_of(right));
  crossed.right.reset();
  crossed.pair.settle();
}

/// The clock of a poller stands still while no thread turns it, so pollers have different ones.
TEST(QueuePairMoves, ItsTimersKeepTheirTime) {
  Crossed crossed;
  ASSERT_NE(crossed.left, nullptr);
  const auto clock_of = [](Poller& poller) {
    Instant now{};
    poller.run([&](qp::Turn& turn) { now = turn.now; });
    return now;
  };
  for (int i = 0; i < 10; ++i) {
    VirtualPair::advance(milliseconds(5));
    crossed.home->turn(VirtualPair::now());
  }
  Poller& other = *crossed.pair.right_state->pollers[1 - crossed.home->index()];
  EXPECT_GT(clock_of(*crossed.home) - clock_of(other), milliseconds(30));

  // The left side has no receive, so that the right one waits for a time which the left one says: 491 ms.
  ASSERT_EQ(crossed.pair.left->modify_queue_pair(crossed.left->queue_pair(), {.min_rnr_timer = 31},
                                                 qp::kMaskMinRnrTimer),
            0);
  crossed.right->post_send(100);
  crossed.pair.settle();
  const PollerQp& entry = entry_of(*crossed.right);
  const Duration before = entry.queue_pair.used()->deadline() - clock_of(*crossed.home);
  ASSERT_GT(before, milliseconds(100));
  const Instant began = VirtualPair::now();
  for (int i = 0; i < 1000 && !crossed.right_moved(); ++i) crossed.exchange();
  ASSERT_TRUE(crossed.right_moved());
  const Duration passed = VirtualPair::now() - began;
  const Duration after = entry.queue_pair.used()->deadline() - clock_of(other);
  EXPECT_LT(passed, milliseconds(5));
  EXPECT_GE(after + passed + milliseconds(5), before);
  EXPECT_LE(after, before);
}

TEST(QueuePairMoves, OfAThreadDomainItStays) {
  VirtualPair pair({.pollers = 2});
  const DomainId domain = *pair.right->allocate_domain();
  auto completions = pair.right->create_completion_queue({.depth = 16});
  const QueuePairOptions options{.domain = domain,
                                 .send_depth = 4,
                                 .receive_depth = 4,
                                 .send_completions = completions.get(),
                                 .receive_completions = completions.get()};
  const auto may_follow = [&](const QueuePairOptions& with) {
    QpSlot* const made = *pair.right->create_queue_pair(with);
    const bool may = static_cast<PollerQp*>(made)->may_follow;
    pair.right->destroy_queue_pair(*made);
    return may;
  };
  EXPECT_TRUE(may_follow(options));
  QueuePairOptions bound = options;
  bound.thread_domain = pair.right->take_thread_domain();
  EXPECT_FALSE(may_follow(bound));
  QueuePairOptions datagrams = options;
  datagrams.type = qp::Type::kUd;
  EXPECT_FALSE(may_follow(datagrams)) << "packets of many peers";
}

}  // namespace
}  // namespace uroce::engine
