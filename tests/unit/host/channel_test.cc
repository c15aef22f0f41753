#include "host/channel.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/values/random.h"
#include "tests/unit/host/memories.h"

namespace uroce::host {
namespace {

constexpr MemoryShape kShape{.channels = 4, .frames = 256};

/// Two processes with a channel between them.
struct Joined {
  TestMemory left{kShape};
  TestMemory right{kShape};
  Channel to_right{left.own(), 1, right.seen(3)};
  Channel to_left{right.own(), 3, left.seen(1)};
};

TEST(Channel, CarriesFramesInOrderBothWays) {
  Joined joined;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(send(joined.left, joined.to_right, "right " + std::to_string(i)));
    ASSERT_TRUE(send(joined.right, joined.to_left, "left " + std::to_string(i)));
    EXPECT_EQ(receive(joined.to_left), "right " + std::to_string(i));
    EXPECT_EQ(receive(joined.to_right), "left " + std::to_string(i));
    joined.to_left.release();
    joined.to_right.release();
  }
  EXPECT_EQ(receive(joined.to_left), "");
}

TEST(Channel, SaysWhetherAFrameHasAnIcrc) {
  Joined joined;
  for (const bool has_icrc : {true, false}) {
    const uint32_t frame = joined.left.own().take();
    joined.to_right.send(frame, 100, has_icrc);
    EXPECT_EQ(joined.to_left.receive().has_icrc, has_icrc);
  }
}

TEST(Channel, GivesFramesBackOnlyWhenTheFarEndHasTakenThem) {
  Joined joined;
  const uint32_t before = joined.left.own().free_count();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(send(joined.left, joined.to_right, "x"));
  EXPECT_FALSE(joined.to_right.reclaim());
  for (int i = 0; i < 4; ++i) receive(joined.to_left);
  EXPECT_FALSE(joined.to_right.reclaim()) << "received, but not yet given back";
  joined.to_left.release();
  EXPECT_TRUE(joined.to_right.reclaim());
  EXPECT_EQ(joined.left.own().free_count(), before - 6);
  EXPECT_EQ(joined.to_right.in_flight(), 6u);
}

TEST(Channel, LeavesOthersHalfOfTheFramesWhenTheFarEndTakesNone) {
  Joined joined;
  Channel other(joined.left.own(), 2, joined.right.seen(2));
  while (send(joined.left, joined.to_right, "x")) continue;
  EXPECT_EQ(joined.to_right.in_flight(), kShape.frames / 2);
  uint32_t sent = 0;
  while (send(joined.left, other, "x")) ++sent;
  EXPECT_EQ(sent, kShape.frames / 4) << "and a second one a quarter";
  EXPECT_FALSE(joined.to_right.has_room());
}

TEST(Channel, FramesInFlightAreFreeWhenTheChannelEnds) {
  TestMemory left(kShape);
  TestMemory right(kShape);
  const uint32_t before = left.own().free_count();
  {
    Channel channel(left.own(), 1, right.seen(1));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(left, channel, "x"));
  }
  EXPECT_EQ(left.own().free_count(), before);
}

TEST(Channel, ANewOneShowsNothingOfTheOneBefore) {
  TestMemory left(kShape);
  TestMemory right(kShape);
  for (int i = 0; i < 3; ++i) {
    Channel to_right(left.own(), 1, right.seen(1));
    Channel to_left(right.own(), 1, left.seen(1));
    EXPECT_EQ(receive(to_left), "");
    ASSERT_TRUE(send(left, to_right, "round " + std::to_string(i)));
    EXPECT_EQ(receive(to_left), "round " + std::to_string(i));
  }
}

TEST(Channel, HearsThatTheFarEndSleeps) {
  Joined joined;
  EXPECT_FALSE(joined.to_right.far_end_sleeps());
  joined.right.own().bell().word.store(Bell::kAsleep);
  EXPECT_TRUE(joined.to_right.far_end_sleeps());
  joined.right.own().bell().word.store(2);  // beside an application that is awake
  EXPECT_FALSE(joined.to_right.far_end_sleeps());
}

TEST(Channel, IsBrokenByADescriptorThatIsNone) {
  const FrameDescriptor sound{.frame = 0, .length = 100, .has_icrc = true, .sequence = 1};
  for (const auto& [frame, length] : {std::pair{kShape.frames, 100u},
                                      {0xFFFFu, 100u},
                                      {0u, kFrameBytesMin - 1},
                                      {0u, 0u},
                                      {0u, kFrameBytes + 1},
                                      {0u, FrameDescriptor::kLengthMask}}) {
    Joined joined;
    FrameDescriptor unsound = sound;
    unsound.frame = static_cast<uint16_t>(frame);
    unsound.length = static_cast<uint16_t>(length);
    joined.left.own().layout().ring(joined.left.data(), 1)[0].store(unsound.pack());
    EXPECT_EQ(joined.to_left.receive().data, nullptr) << frame << " " << length;
    EXPECT_TRUE(joined.to_left.broken());
    // And stays so.
    joined.left.own().layout().ring(joined.left.data(), 1)[0].store(sound.pack());
    EXPECT_FALSE(joined.to_left.pending());
    EXPECT_EQ(joined.to_left.receive().data, nullptr);
  }
}

TEST(Channel, IsBrokenByACountThatCannotBe) {
  for (const uint32_t count : {11u, 0xFFFF'FFFFu, 0x8000'0000u}) {
    Joined joined;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(send(joined.left, joined.to_right, "x"));
    joined.right.own().layout().consumed(joined.right.data(), 3).count.store(count);
    EXPECT_FALSE(joined.to_right.reclaim());
    EXPECT_TRUE(joined.to_right.broken()) << count;
    EXPECT_EQ(joined.to_right.in_flight(), 10u) << "no frame is given out twice";
  }
}

/// The far end writes what it likes wherever it may, while this end sends and receives: nothing outside of
/// what it may is read (ASan), no frame is given out twice.
TEST(Channel, SurvivesAFarEndThatWritesAnything) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Joined joined;
    std::set<uint32_t> ours;
    for (int step = 0; step < 400; ++step) {
      std::byte* const at =
          joined.right.data() +
          random.below(static_cast<uint64_t>(joined.right.own().layout().frame(joined.right.data(), 4) -
                                             joined.right.data()));
      const uint64_t value = random.next() >> random.below(64);
      std::memcpy(at, &value, std::min<size_t>(sizeof value, 1 + random.below(8)));
      if (random.chance(1, 3))
        joined.right.own()
            .layout()
            .consumed(joined.right.data(), 3)
            .count.store(static_cast<uint32_t>(random.below(600)));
      if (random.chance(1, 3)) {
        const FrameDescriptor descriptor{.frame = static_cast<uint16_t>(random.below(300)),
                                         .length = static_cast<uint16_t>(random.below(5000)),
                                         .has_icrc = false,
                                         .sequence = static_cast<uint32_t>(1 + random.below(8))};
        joined.right.own().layout().ring(joined.right.data(), 3)[random.below(8)].store(descriptor.pack());
      }
      if (joined.to_right.has_room()) {
        const uint32_t frame = joined.left.own().take();
        ASSERT_LT(frame, kShape.frames);
        joined.to_right.send(frame, 64, true);
      }
      ASSERT_LE(joined.to_right.in_flight(), kRingFrames);
      const Channel::Frame frame = joined.to_right.receive();
      if (frame.data == nullptr) continue;
      ASSERT_GE(frame.data, joined.right.data());
      ASSERT_LE(frame.data + frame.length, joined.right.data() + joined.right.bytes());
      joined.to_right.release();
    }
    // Whatever it said: each frame is free once, or in flight.
    EXPECT_EQ(joined.left.own().free_count() + joined.to_right.in_flight(), kShape.frames);
  }
}

TEST(Channel, CarriesWhatOneThreadSendsToAnother) {
  constexpr int kFrames = 20000;
  Joined joined;
  std::jthread sender([&] {
    for (int i = 0; i < kFrames;)
      if (send(joined.left, joined.to_right, std::to_string(i))) ++i;
  });
  for (int i = 0; i < kFrames;) {
    const std::string text = receive(joined.to_left);
    if (text.empty()) continue;
    ASSERT_EQ(text, std::to_string(i++));
    joined.to_left.release();
  }
}

TEST(OwnMemory, RecognizesItsFormat) {
  TestMemory memory(kShape);
  EXPECT_TRUE(has_format(memory.data(), kShape));
  EXPECT_FALSE(has_format(memory.data(), {.channels = kShape.channels, .frames = kShape.frames + 1}));
  memory.data()[3] ^= std::byte{1};
  EXPECT_FALSE(has_format(memory.data(), kShape));
}

TEST(OwnMemory, GivesOutEachFrameOnce) {
  TestMemory memory(kShape);
  std::set<uint32_t> taken;
  for (uint32_t frame = memory.own().take(); frame != OwnMemory::kNoFrame; frame = memory.own().take()) {
    EXPECT_TRUE(taken.insert(frame).second);
    EXPECT_EQ(memory.own().index_of(memory.own().frame(frame) + 17), frame);
  }
  EXPECT_EQ(taken.size(), kShape.frames);
  EXPECT_EQ(memory.own().index_of(memory.data()), OwnMemory::kNoFrame);
  EXPECT_EQ(memory.own().index_of(memory.own().frame(0) + size_t{kShape.frames} * kFrameBytes),
            OwnMemory::kNoFrame);
}

TEST(FrameDescriptor, IsWhatItWasPackedFrom) {
  for (const FrameDescriptor descriptor :
       {FrameDescriptor{0, 14, true, {}, 1},
        {65535, 4352, false, {FrameDescriptor::kSenderMask}, FrameDescriptor::kSequenceMask},
        {1, 100, true, {77}, 0}}) {
    const FrameDescriptor same = FrameDescriptor::unpack(descriptor.pack());
    EXPECT_EQ(same.frame, descriptor.frame);
    EXPECT_EQ(same.length, descriptor.length);
    EXPECT_EQ(same.has_icrc, descriptor.has_icrc);
    EXPECT_EQ(same.sender, descriptor.sender);
    EXPECT_EQ(same.sequence, descriptor.sequence);
  }
}

}  // namespace
}  // namespace uroce::host
