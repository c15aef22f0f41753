// What a placer leaves to a copy engine, here one that does nothing before it is told to.
#include <gtest/gtest.h>

#include <vector>

#include "copy/placer.h"
#include "tests/support/late_engine.h"

namespace uroce::copy {
namespace {

using Kind = MessageMark::Kind;

constexpr MemoryNature kOurs(false, true);
constexpr size_t kLong = 4096;

class CountedPatience final : public Patience {
 public:
  void begin() override { ++waits; }
  bool wait() override { return ++looks < looks_max; }
  int waits = 0;
  int looks = 0;
  int looks_max = 1000;
};

class Offload : public ::testing::Test, public MessageOwner {
 protected:
  std::byte* to(size_t offset) { return memory_.data() + offset; }
  const std::byte* bytes(int value, size_t length = kLong) {
    sources_.emplace_back(length, static_cast<std::byte>(value));
    return sources_.back().data();
  }
  [[nodiscard]] bool filled(int value, size_t begin, size_t length) const {
    for (size_t i = begin; i < begin + length; ++i) {
      if (memory_[i] != static_cast<std::byte>(value)) return false;
    }
    return true;
  }
  MessageMark mark(uint32_t psn, Kind kind = Kind::kWrite, MessageOwner* owner = nullptr) {
    return {.owner = owner == nullptr ? this : owner, .kind = kind, .psn = Psn(psn)};
  }
  bool place(size_t at, int value, const MessageMark& of, size_t length = kLong) {
    placer_.next_mark() = of;
    return placer_.place(to(at), bytes(value, length), length, kOurs);
  }
  bool place_last(size_t at, int value, const MessageMark& of, size_t length = kLong) {
    placer_.next_mark() = of;
    return placer_.place_last(to(at), bytes(value, length), length, kOurs);
  }
  [[nodiscard]] uint64_t copied() const { return counters_.read(Counter::kEngineCopies); }
  [[nodiscard]] uint64_t failed() const { return counters_.read(Counter::kEngineFailed); }

  LateEngine engine_;
  CountedPatience patience_;
  Counters counters_;
  Placer placer_{copy::Kind::kAuto, {.engine = &engine_, .patience = &patience_, .counters = &counters_}};

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  std::vector<std::vector<std::byte>> sources_;
};

TEST_F(Offload, PlaceALongMessage_ExpectItsBodyWithTheEngineAndItsTailWithUs) {
  ASSERT_TRUE(place(0, 1, mark(1)));
  ASSERT_TRUE(place_last(kLong, 1, mark(2)));
  EXPECT_TRUE(filled(0, 0, 2 * kLong));
  ASSERT_TRUE(placer_.start_copies());
  EXPECT_FALSE(placer_.copies_ended());
  EXPECT_TRUE(placer_.copying());
  engine_.finish(1);
  EXPECT_FALSE(placer_.copies_ended());
  engine_.finish();
  EXPECT_TRUE(placer_.copies_ended());
  EXPECT_FALSE(placer_.copying());
  EXPECT_TRUE(filled(1, 0, 2 * kLong - Placer::kTailBytes));
  EXPECT_TRUE(filled(0, 2 * kLong - 1, 1));
  placer_.commit();
  EXPECT_TRUE(filled(1, 0, 2 * kLong));
  EXPECT_FALSE(placer_.dirty());
  EXPECT_EQ(copied(), 2u);
  EXPECT_EQ(patience_.waits, 0);
  EXPECT_TRUE(placer_.losses().empty());
}

TEST_F(Offload, PlaceWhatIsShortOrNotOurs_ExpectTheEngineUntouched) {
  const MessageMark any = mark(1);
  placer_.place(to(0), bytes(1), kLong, MemoryNature(true, false));
  placer_.place_last(to(8192), bytes(2), kLong, false);
  ASSERT_TRUE(place(20'000, 3, any, Placer::kCopiedMin - 1));
  ASSERT_TRUE(place_last(30'000, 4, any, Placer::kCopiedMin));  // its body is shorter
  EXPECT_EQ(engine_.submitted(), 0u);
  EXPECT_FALSE(placer_.start_copies());
  placer_.commit();
  EXPECT_TRUE(filled(1, 0, kLong));
  EXPECT_TRUE(filled(2, 8192, kLong));
  EXPECT_TRUE(filled(3, 20'000, Placer::kCopiedMin - 1));
  EXPECT_TRUE(filled(4, 30'000, Placer::kCopiedMin));
}

TEST_F(Offload, PlaceMoreThanTheEngineHasRoomFor_ExpectTheRestCopiedAtOnce) {
  engine_.room = 2;
  for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(place(i * kLong, 5, mark(static_cast<uint32_t>(i))));
  EXPECT_TRUE(filled(0, 0, 2 * kLong));
  EXPECT_TRUE(filled(5, 2 * kLong, 2 * kLong));
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish();
  EXPECT_TRUE(placer_.copies_ended());
  EXPECT_TRUE(filled(5, 0, 4 * kLong));
}

TEST_F(Offload, PlaceMoreThanABurstHasCopies_ExpectTheRestCopiedAtOnce) {
  for (size_t i = 0; i < Placer::kCopiesMax + 5; ++i)
    ASSERT_TRUE(place(i * 1024, 6, mark(static_cast<uint32_t>(i)), 1024));
  EXPECT_EQ(engine_.submitted(), Placer::kCopiesMax);
  EXPECT_TRUE(filled(6, Placer::kCopiesMax * 1024, 5 * 1024));
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish();
  EXPECT_TRUE(placer_.copies_ended());
}

TEST_F(Offload, PlaceOverWhatIsBeingCopied_ExpectTheSecondOnTop) {
  engine_.finish_when_asked(7);
  ASSERT_TRUE(place_last(0, 1, mark(1)));
  ASSERT_TRUE(place_last(2000, 2, mark(2)));
  EXPECT_EQ(patience_.waits, 1) << "for the first";
  EXPECT_TRUE(filled(1, 0, kLong)) << "as a whole, before a byte of the second is placed";
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish();
  EXPECT_TRUE(placer_.copies_ended());
  placer_.commit();
  EXPECT_TRUE(filled(1, 0, 2000));
  EXPECT_TRUE(filled(2, 2000, kLong));
}

TEST_F(Offload, AFailedBody_ExpectItsMessageAndThoseBehindItUnseenButNotThoseBefore) {
  ASSERT_TRUE(place_last(0, 1, mark(1)));
  ASSERT_TRUE(place(10'000, 2, mark(2)));
  ASSERT_TRUE(place_last(10'000 + kLong, 2, mark(3)));
  ASSERT_TRUE(place_last(30'000, 3, mark(4), 8));
  struct Other : MessageOwner {
  } other;
  ASSERT_TRUE(place_last(40'000, 4, mark(4, Kind::kWrite, &other), 8));
  ASSERT_TRUE(place_last(50'000, 5, mark(9, Kind::kRead), 8));
  engine_.failing = {1};
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish();
  ASSERT_TRUE(placer_.copies_ended());
  placer_.commit();
  ASSERT_EQ(placer_.losses().size(), 1u);
  EXPECT_EQ(placer_.losses()[0].psn, Psn(2));
  EXPECT_TRUE(filled(1, 0, kLong));
  EXPECT_TRUE(filled(0, 10'000 + 2 * kLong - 1, 1));
  EXPECT_TRUE(filled(0, 30'000, 8));
  EXPECT_TRUE(filled(4, 40'000, 8)) << "another region's";
  EXPECT_TRUE(filled(5, 50'000, 8)) << "the other direction";
  EXPECT_EQ(copied(), 2u);
  EXPECT_EQ(failed(), 1u);
}

TEST_F(Offload, SeveralFailedBodies_ExpectTheFirstOfEachRow) {
  struct Other : MessageOwner {
  } other;
  ASSERT_TRUE(place(0, 1, mark(7)));
  ASSERT_TRUE(place(10'000, 1, mark(8)));
  ASSERT_TRUE(place(20'000, 1, mark(3, Kind::kSend, &other)));
  ASSERT_TRUE(place(30'000, 1, mark(5, Kind::kRead)));
  engine_.failing = {0, 1, 2, 3};
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish();
  ASSERT_TRUE(placer_.copies_ended());
  ASSERT_EQ(placer_.losses().size(), 3u);
  EXPECT_EQ(placer_.losses()[0].psn, Psn(7));
  EXPECT_EQ(placer_.losses()[1].psn, Psn(3));
  EXPECT_EQ(placer_.losses()[2].psn, Psn(5));
}

TEST_F(Offload, GiveUp_ExpectWhatHadEndedKeptTheRestLostAndTheCpuFromThenOn) {
  ASSERT_TRUE(place_last(0, 1, mark(1)));
  ASSERT_TRUE(place_last(10'000, 2, mark(2)));
  ASSERT_TRUE(placer_.start_copies());
  engine_.finish(1);
  placer_.give_up();
  EXPECT_TRUE(engine_.stopped());
  EXPECT_TRUE(engine_.overdue());
  EXPECT_FALSE(placer_.copying());
  placer_.commit();
  ASSERT_EQ(placer_.losses().size(), 1u);
  EXPECT_EQ(placer_.losses()[0].psn, Psn(2));
  EXPECT_TRUE(filled(1, 0, kLong));
  EXPECT_TRUE(filled(0, 10'000, kLong));
  EXPECT_EQ(copied(), 1u);
  EXPECT_EQ(failed(), 1u);
  placer_.forget_losses();

  EXPECT_FALSE(placer_.marks_bodies());
  ASSERT_TRUE(place_last(30'000, 3, mark(3)));
  EXPECT_FALSE(placer_.start_copies());
  placer_.commit();
  EXPECT_TRUE(filled(3, 30'000, kLong));
}

TEST_F(Offload, OverlapWithAnEngineThatNeverEnds_ExpectTheFirstLostAndNoWaitForEver) {
  ASSERT_TRUE(place_last(0, 1, mark(1)));
  ASSERT_TRUE(place_last(2000, 2, mark(2)));
  EXPECT_EQ(patience_.looks, patience_.looks_max);
  EXPECT_TRUE(engine_.overdue());
  ASSERT_EQ(placer_.losses().size(), 1u);
  EXPECT_EQ(placer_.losses()[0].psn, Psn(1));
  placer_.commit();
  EXPECT_TRUE(filled(0, 2000 + kLong - 1, 1)) << "what comes behind a lost message is not seen";
}

TEST_F(Offload, Abandon_ExpectNothingMorePlaced) {
  ASSERT_TRUE(place_last(0, 1, mark(1)));
  ASSERT_TRUE(placer_.start_copies());
  placer_.abandon();
  EXPECT_TRUE(engine_.stopped());
  EXPECT_FALSE(engine_.overdue());
  engine_.finish();
  placer_.commit();
  EXPECT_TRUE(filled(0, 0, kLong));
  EXPECT_TRUE(placer_.losses().empty());
}

}  // namespace
}  // namespace uroce::copy
