// The queue of a port that programs share, without a service: the tests say what the reader would.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "drivers/port/host/host_queue.h"
#include "port/frame_body.h"
#include "tests/unit/host/memories.h"
#include "wire/destination.h"
#include "wire/frame.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kUnit = 1u << host::kBlockBits;
constexpr Instant kStart{1'000'000'000};

/// A program: its queue, and what the test tells it.
struct Program {
  explicit Program(uint32_t first) : numbers{first, kUnit} {}

  /// The way to `other`, by channel `ours` here and `theirs` there.
  void reach(Program& other, uint32_t ours, uint32_t theirs) {
    auto peer = std::make_unique<Peer>();
    peer->block = other.numbers;
    peer->number = ours;
    peer->channel = std::make_unique<host::Channel>(queue.memory(), ours, other.memory.seen(theirs));
    channel = peer->channel.get();
    tell({.kind = PeerChange::Kind::kReached, .block = other.numbers, .peer = std::move(peer)});
  }
  void tell(PeerChange change) {
    auto told = std::make_unique<PeerChange>(std::move(change));
    ASSERT_TRUE(exchange.tell(told));
  }

  /// Makes and sends a frame to a queue pair of this host.
  void send(QpNumber to, std::string_view payload) {
    port::TxFrame frame;
    ASSERT_EQ(queue.allocate({&frame, 1}), 1);
    const wire::FrameTemplate where(
        {.source = Gid::from_ipv4({192, 0, 2, 1}), .destination = Gid::from_ipv4({192, 0, 2, 1})});
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
    headers.bth.destination = to;
    const auto bytes = static_cast<uint32_t>(payload.size());
    std::memcpy(wire::write_headers({frame.data, frame.capacity}, where, headers, bytes), payload.data(),
                payload.size());
    frame.length = wire::finish_frame({frame.data, frame.capacity}, where, headers.bth.opcode, bytes);
    ASSERT_EQ(wire::destination_of(frame.data), to);
    frame.on_host = true;
    ASSERT_EQ(queue.transmit({&frame, 1}), 1);
  }

  /// The payloads of what has arrived, of `count_max` frames at most.
  std::vector<std::string> received(size_t count_max = SIZE_MAX) {
    std::vector<std::string> payloads;
    port::RxFrame frames[32];
    while (const uint16_t count =
               queue.receive(std::span(frames).first(std::min(count_max - payloads.size(), size_t{32})))) {
      for (const port::RxFrame& frame : std::span(frames).first(count)) {
        constexpr size_t kHeaders = 14 + 20 + 8 + 12;
        payloads.emplace_back(reinterpret_cast<const char*>(frame.data) + kHeaders,
                              frame.length - kHeaders - 4);
      }
      queue.release(std::span(frames).first(count));
    }
    return payloads;
  }

  const NumberBlock numbers;
  host::TestMemory memory{host::kProgramMemory};
  PeerExchange exchange;
  HostQueue queue{{.memory = memory.data(), .icrc_on_host = true}, exchange};
  host::Channel* channel = nullptr;  // to the program that was reached last; the queue's
};

using Payloads = std::vector<std::string>;

struct HostQueueTest : testing::Test {
  Program a{8 * kUnit};
  Program b{9 * kUnit};
  const QpNumber to_a{8 * kUnit + 5};
  const QpNumber to_b{9 * kUnit + 7};

  void join() {
    a.reach(b, 1, 2);
    b.reach(a, 2, 1);
    EXPECT_EQ(a.received(), Payloads());
    EXPECT_EQ(b.received(), Payloads());
  }
  /// A service that takes nothing is there: without one nothing is asked.
  void give_service(Program& program, host::TestMemory& memory) {
    auto peer = std::make_unique<Peer>();
    peer->channel = std::make_unique<host::Channel>(program.queue.memory(), 0, memory.seen(0));
    program.tell({.kind = PeerChange::Kind::kService, .peer = std::move(peer)});
    EXPECT_EQ(program.received(), Payloads());
  }
};

TEST_F(HostQueueTest, FramesGoToTheProgramThatHasTheNumber) {
  join();
  a.send(to_b, "to b....");
  b.send(to_a, "to a....");
  EXPECT_EQ(b.received(), Payloads{"to b...."});
  EXPECT_EQ(a.received(), Payloads{"to a...."});
}

TEST_F(HostQueueTest, FramesWaitUntilTheProgramIsIntroduced) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  for (const char* payload : {"one.", "two.", "more"}) a.send(to_b, payload);
  EXPECT_EQ(a.exchange.take_question(), to_b);
  EXPECT_FALSE(a.exchange.take_question()) << "asked once";
  a.reach(b, 1, 2);
  b.reach(a, 2, 1);
  EXPECT_EQ(b.received(), Payloads()) << "it has the channel, and the frames are not in it yet";
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(b.received(), (Payloads{"one.", "two.", "more"}));
  EXPECT_EQ(a.queue.dropped(), 0u);
}

TEST_F(HostQueueTest, FramesForAProgramThatIsNotThereAreLost) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  const uint32_t before = a.queue.memory().free_count();
  for (int i = 0; i < 10; ++i) a.send(to_b, "lost");
  EXPECT_EQ(a.queue.memory().free_count(), before - 10);
  a.tell({.kind = PeerChange::Kind::kAbsent, .asked = to_b});
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(a.queue.dropped(), 10u);
  EXPECT_EQ(a.queue.memory().free_count(), before);
  a.send(to_b, "asks anew");
  EXPECT_EQ(a.exchange.take_question(), to_b);
}

TEST_F(HostQueueTest, FramesThatWaitAreBounded) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  EXPECT_TRUE(a.queue.has_room(to_b));
  for (int i = 0; i < 1000; ++i) a.send(to_b, "wait");
  EXPECT_FALSE(a.queue.has_room(to_b));
  EXPECT_EQ(a.queue.dropped(), 1000u - 128u);
}

TEST_F(HostQueueTest, DatagramsWaitForAnIntroduction) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  size_t sent = 0;
  for (; a.queue.takes_datagrams(to_b, kStart); ++sent) {
    ASSERT_LT(sent, 1000u);
    a.send(to_b, "early...");
  }
  EXPECT_TRUE(a.queue.takes_datagrams(QpNumber{10 * kUnit}, kStart)) << "others do not wait for it";
  a.reach(b, 1, 2);
  b.reach(a, 2, 1);
  EXPECT_EQ(b.received(), Payloads()) << "it has the channel, and the frames are not in it yet";
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_TRUE(a.queue.takes_datagrams(to_b, kStart));
  EXPECT_EQ(b.received(), Payloads(sent, "early..."));
  EXPECT_EQ(a.queue.dropped(), 0u);
}

TEST_F(HostQueueTest, DatagramsWaitForAnIntroductionOnce) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  for (; a.queue.takes_datagrams(to_b, kStart);) a.send(to_b, "early...");
  a.tell({.kind = PeerChange::Kind::kAbsent, .asked = to_b});
  EXPECT_EQ(a.received(), Payloads());
  const uint64_t lost = a.queue.dropped();
  EXPECT_GT(lost, 0u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(a.queue.takes_datagrams(to_b, kStart)) << "a program that does not answer delays others once";
    a.send(to_b, "lost....");
  }
  EXPECT_GT(a.queue.dropped(), lost);
  a.reach(b, 1, 2);
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_TRUE(a.queue.takes_datagrams(to_b, kStart));
}

TEST_F(HostQueueTest, DatagramsWaitForAProgramThatTakesThem) {
  join();
  uint64_t sent = 0;
  uint64_t arrived = 0;
  Instant now = kStart;
  // It takes a turn's frames in a time that is just short of the bound.
  for (int turns = 0; turns < 100; ++turns, now = now + milliseconds(499)) {
    for (; a.queue.takes_datagrams(to_b, now); ++sent) a.send(to_b, "slow");
    arrived += b.received(64).size();
  }
  arrived += b.received().size();
  EXPECT_EQ(arrived, sent);
  EXPECT_GT(sent, 64u * 100);
  EXPECT_EQ(a.queue.dropped(), 0u);
}

TEST_F(HostQueueTest, DatagramsWaitForAProgramThatTakesNoneUpToTheBound) {
  Program c{10 * kUnit};
  join();
  a.reach(c, 3, 1);
  c.reach(a, 1, 3);
  EXPECT_EQ(a.received(), Payloads());
  size_t sent = 0;
  for (; a.queue.takes_datagrams(to_b, kStart); ++sent) a.send(to_b, "in time.");
  for (int i = 0; i < 63; ++i, ++sent) a.send(to_b, "in time.");  // of the same turn
  const Instant before = kStart + milliseconds(499);
  const Instant after = kStart + milliseconds(500);
  EXPECT_FALSE(a.queue.takes_datagrams(to_b, before));
  EXPECT_EQ(a.queue.dropped(), 0u);
  EXPECT_TRUE(a.queue.takes_datagrams(to_b, after));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(a.queue.takes_datagrams(to_b, after)) << "it delays others once";
    a.send(to_b, "too late");
  }
  EXPECT_EQ(a.queue.dropped(), 2000u) << "the frames that are left are for others";
  EXPECT_TRUE(a.queue.has_room(QpNumber{10 * kUnit}));
  EXPECT_TRUE(a.queue.takes_datagrams(QpNumber{10 * kUnit}, after));
  // It takes a part of a turn's frames: nothing changes.
  size_t arrived = b.received(20).size();
  ASSERT_TRUE(a.queue.takes_datagrams(to_b, after));
  a.send(to_b, "too late");
  EXPECT_EQ(a.queue.dropped(), 2001u);
  // It takes them all: the bound begins anew.
  arrived += b.received().size();
  EXPECT_EQ(arrived, sent);
  ASSERT_TRUE(a.queue.takes_datagrams(to_b, after));
  for (sent = 0; a.queue.takes_datagrams(to_b, after); ++sent) a.send(to_b, "anew");
  EXPECT_FALSE(a.queue.takes_datagrams(to_b, after + milliseconds(499)));
  EXPECT_EQ(b.received(), Payloads(sent, "anew"));
  EXPECT_EQ(a.queue.dropped(), 2001u);
}

TEST_F(HostQueueTest, AProgramThatTakesNothingHoldsUpNoOther) {
  Program c{10 * kUnit};
  join();
  a.reach(c, 3, 1);
  c.reach(a, 1, 3);
  EXPECT_EQ(a.received(), Payloads());
  while (a.queue.has_room(to_b)) a.send(to_b, "slow");
  EXPECT_EQ(a.queue.dropped(), 0u) << "a queue pair waits before anything is lost";
  for (int i = 0; i < 2000; ++i) a.send(to_b, "lost");
  EXPECT_GT(a.queue.dropped(), 0u);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(a.queue.has_room(QpNumber{10 * kUnit}));
    a.send({10 * kUnit}, "fast");
    ASSERT_EQ(c.received().size(), 1u);
  }
}

TEST_F(HostQueueTest, WhatAProgramSentBeforeItEndedIsReceived) {
  join();
  for (int i = 0; i < 100; ++i) b.send(to_a, "last");
  a.tell({.kind = PeerChange::Kind::kGone, .block = b.numbers});
  EXPECT_EQ(a.received().size(), 100u);
  EXPECT_EQ(a.received(), Payloads());
  const auto retired = a.exchange.take_retired();
  ASSERT_NE(retired, nullptr);
  EXPECT_EQ(retired->block, b.numbers);
  EXPECT_EQ(retired->number, 1u);
}

TEST_F(HostQueueTest, FramesInFlightToAProgramThatEndsAreFree) {
  join();
  const uint32_t before = a.queue.memory().free_count();
  for (int i = 0; i < 50; ++i) a.send(to_b, "gone");
  a.tell({.kind = PeerChange::Kind::kGone, .block = b.numbers});
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(a.queue.memory().free_count(), before);
}

TEST_F(HostQueueTest, AnotherProgramMayHaveTheSameNumbersLater) {
  join();
  a.tell({.kind = PeerChange::Kind::kGone, .block = b.numbers});
  Program again{9 * kUnit};
  a.reach(again, 5, 6);
  again.reach(a, 6, 5);
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(again.received(), Payloads());
  a.send(to_b, "new.");
  EXPECT_EQ(again.received(), Payloads{"new."});
  EXPECT_EQ(b.received(), Payloads());
}

TEST_F(HostQueueTest, ChannelsOutliveTheService) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  join();
  a.tell({.kind = PeerChange::Kind::kService});
  EXPECT_EQ(a.received(), Payloads());
  a.send(to_b, "go on...");
  EXPECT_EQ(b.received(), Payloads{"go on..."});
  EXPECT_TRUE(a.queue.has_room(std::nullopt)) << "to the link: what is sent is lost";
  a.send({1}, "to nowhere..");
  EXPECT_EQ(a.queue.dropped(), 1u);
}

TEST_F(HostQueueTest, FramesGoByWayOfTheServiceWhereNoMemoryIsShared) {
  host::TestMemory service(host::kServiceMemory);
  give_service(a, service);
  host::Channel channel(service.own(), 0, a.memory.seen(0));
  a.send(to_b, "over");
  a.tell({.kind = PeerChange::Kind::kRelayed, .asked = to_b});
  EXPECT_EQ(a.received(), Payloads());
  a.send(to_b, "and out");
  EXPECT_NE(channel.receive().data, nullptr);
  EXPECT_NE(channel.receive().data, nullptr);
  // The program ends: the next frame asks anew.
  a.tell({.kind = PeerChange::Kind::kGone, .block = b.numbers});
  EXPECT_EQ(a.received(), Payloads());
  EXPECT_EQ(a.exchange.take_question(), to_b);
  a.send(to_b, "which?");
  EXPECT_EQ(a.exchange.take_question(), to_b);
}

TEST_F(HostQueueTest, BodiesOfLongFramesStayWhereTheyAreUntilTheNextReceive) {
  join();
  b.queue.leave_bodies();
  const std::string payload(2000, 'x');
  a.send(to_b, payload);
  a.send(to_b, "short...");
  port::RxFrame frames[32];
  ASSERT_EQ(b.queue.receive(frames), 2);
  EXPECT_EQ(frames[1].body, nullptr);
  const std::byte* const body = frames[0].body;
  ASSERT_NE(a.queue.memory().index_of(body), host::OwnMemory::kNoFrame) << "in the sender's memory";
  const auto is_sent = [&](uint32_t at, uint32_t bytes) {
    return std::memcmp(frames[0].data + at, body + at, bytes) == 0;
  };
  EXPECT_TRUE(is_sent(0, port::kFrameHeadBytes));
  EXPECT_TRUE(is_sent(frames[0].length - port::kFrameTailBytes, port::kFrameTailBytes));
  EXPECT_FALSE(is_sent(0, frames[0].length)) << "the rest was not copied";
  port::take_body(frames[0]);
  EXPECT_TRUE(is_sent(0, frames[0].length));
  b.queue.release(std::span(frames).first(2));
  a.channel->reclaim();
  EXPECT_EQ(a.channel->in_flight(), 2u) << "the frames are not the sender's yet";
  EXPECT_EQ(b.received(), Payloads());
  a.channel->reclaim();
  EXPECT_EQ(a.channel->in_flight(), 0u);
}

TEST_F(HostQueueTest, AFarEndThatBreaksTheFormatIsReadNoMore) {
  join();
  const host::FrameDescriptor unsound{.frame = 0xFFFF, .length = 100, .has_icrc = true, .sequence = 1};
  b.memory.own().layout().ring(b.memory.data(), 2)[0].store(unsound.pack());
  EXPECT_EQ(a.received(), Payloads());
  b.send(to_a, "unread");
  EXPECT_EQ(a.received(), Payloads());
}

}  // namespace
}  // namespace uroce::drivers
