#include "copy/placer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"

namespace uroce::copy {
namespace {

namespace testing = uroce::testing;

/// A target region and messages to place there.
class PlacerTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 16;

  std::byte* to(size_t offset) { return memory_.data() + offset; }
  /// `length` bytes of value `value` that stay readable until the end of the test.
  const std::byte* message(int value, size_t length) {
    sources_.emplace_back(length, static_cast<std::byte>(value));
    return sources_.back().data();
  }
  [[nodiscard]] size_t count(int value, size_t begin, size_t end) const {
    size_t found = 0;
    for (size_t i = begin; i < end; ++i) found += memory_[i] == static_cast<std::byte>(value);
    return found;
  }
  [[nodiscard]] bool filled(int value, size_t begin, size_t end) const {
    return count(value, begin, end) == end - begin;
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  std::vector<std::vector<std::byte>> sources_;
};

TEST_F(PlacerTest, ReceiveAMessageOfOnePacket_ExpectItsLastByteOnlyAfterTheCommit) {
  for (const KindRow& row : kinds()) {
    Placer placer(row.kind);
    const int value = 1 + static_cast<int>(row.kind);
    placer.place_last(to(100), message(value, 4096), 4096, true);
    EXPECT_TRUE(placer.dirty()) << row.name;
    EXPECT_FALSE(filled(value, 100 + 4095, 100 + 4096)) << row.name;
    EXPECT_TRUE(filled(value, 100, 100 + 4096 - Placer::kTailBytes)) << row.name;
    placer.commit();
    EXPECT_FALSE(placer.dirty()) << row.name;
    EXPECT_TRUE(filled(value, 100, 100 + 4096)) << row.name;
  }
}

TEST_F(PlacerTest, ReceiveAMessageNotLongerThanATail_ExpectNoByteBeforeTheCommit) {
  Placer placer(Kind::kAuto);
  placer.place_last(to(30), message(5, 64), 64, true);
  placer.place_last(to(200), message(6, 1), 1, true);
  EXPECT_EQ(count(5, 0, kBytes) + count(6, 0, kBytes), 0u);
  placer.commit();
  EXPECT_TRUE(filled(5, 30, 94));
  EXPECT_TRUE(filled(6, 200, 201));
  EXPECT_EQ(count(5, 0, kBytes) + count(6, 0, kBytes), 65u);
}

TEST_F(PlacerTest, ReceiveFirstAndMiddlePackets_ExpectThemWholeAtOnce) {
  Placer placer(Kind::kOrdinary);
  placer.place(to(0), message(1, 1024), 1024, false);
  placer.place(to(1024), message(1, 1024), 1024, false);
  EXPECT_FALSE(placer.dirty());
  EXPECT_TRUE(filled(1, 0, 2048));
}

TEST_F(PlacerTest, ReceiveColdBytes_ExpectAFenceToBeOwed) {
  Placer placer(Kind::kAuto);
  placer.place(to(0), message(1, 4096), 4096, true);
  EXPECT_TRUE(placer.dirty());
  placer.commit();
  EXPECT_FALSE(placer.dirty());
  placer.place(to(8192), message(1, 4096), 4096, false);
  EXPECT_FALSE(placer.dirty());
}

TEST_F(PlacerTest, ReceiveNothing_ExpectNothingOwed) {
  Placer placer(Kind::kNonTemporal);
  placer.place(nullptr, nullptr, 0, true);
  placer.place_last(nullptr, nullptr, 0, true);
  EXPECT_FALSE(placer.dirty());
  placer.commit();
}

TEST_F(PlacerTest, ReceiveASecondMessageOverTheFirst_ExpectTheFirstCommittedBefore) {
  Placer placer(Kind::kAuto);
  placer.place_last(to(0), message(1, 1000), 1000, true);
  placer.place_last(to(500), message(2, 1000), 1000, true);
  // All of the first was there before any byte of the second.
  EXPECT_TRUE(filled(1, 0, 500));
  placer.commit();
  EXPECT_TRUE(filled(1, 0, 500));
  EXPECT_TRUE(filled(2, 500, 1500));
}

TEST_F(PlacerTest, ReceiveAMessageOverTheBodyOfAnUncommittedOne_ExpectItsTailFirst) {
  Placer placer(Kind::kOrdinary);
  placer.place(to(0), message(1, 1024), 1024, false);
  placer.place_last(to(1024), message(1, 1024), 1024, false);
  EXPECT_FALSE(filled(1, 2047, 2048));
  placer.place(to(0), message(2, 8), 8, false);
  EXPECT_TRUE(filled(1, 8, 2048));
  EXPECT_TRUE(filled(2, 0, 8));
}

TEST_F(PlacerTest, ReceiveMessagesBetweenEachOther_ExpectNoCommitWithoutOverlap) {
  Placer placer(Kind::kOrdinary);
  placer.place_last(to(0), message(1, 256), 256, false);
  placer.place_last(to(4096), message(1, 256), 256, false);
  placer.place_last(to(2048), message(1, 256), 256, false);
  placer.place_last(to(256), message(1, 256), 256, false);
  EXPECT_FALSE(filled(1, 255, 256));
  EXPECT_FALSE(filled(1, 4096 + 255, 4096 + 256));
  placer.commit();
  EXPECT_TRUE(filled(1, 0, 512));
}

TEST_F(PlacerTest, ReceiveMoreMessagesThanTailsFit_ExpectAllOfThem) {
  Placer placer(Kind::kAuto);
  constexpr size_t kMessages = 3 * Placer::kTailsMax + 1;
  for (size_t i = 0; i < kMessages; ++i) placer.place_last(to(i * 128), message(9, 100), 100, true);
  EXPECT_GE(count(9, 0, kBytes), 2 * Placer::kTailsMax * 100);
  placer.commit();
  EXPECT_EQ(count(9, 0, kBytes), kMessages * 100);
}

TEST_F(PlacerTest, ReceiveAKindThatThisCpuMayLack_ExpectTheBytesAllTheSame) {
  Placer placer(Kind::kNonTemporal512);
  placer.place_last(to(1), message(3, 5000), 5000, true);
  placer.commit();
  EXPECT_TRUE(filled(3, 1, 5001));
}

/// A placement that causes a commit keeps the mark that was written for it.
TEST_F(PlacerTest, ReceiveOverAnUncommittedMessageWhoseMemoryIsGone_ExpectEachLossUnderItsOwnMark) {
  const testing::FaultCatcher catcher;
  const testing::VanishingMemory memory(1);
  memory.vanish(testing::Vanishing::kNoAccess);
  struct Owner : MessageOwner {
  } owners[2];
  Placer placer(Kind::kAuto);
  for (Owner& owner : owners) {
    placer.next_mark() = {.owner = &owner, .psn = Psn(static_cast<uint32_t>(&owner - owners))};
    placer.place_last(memory.data(), message(1, 64), 64, false);
  }
  ASSERT_EQ(placer.losses().size(), 1u);
  placer.commit();
  ASSERT_EQ(placer.losses().size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(placer.losses()[i].owner, &owners[i]);
    EXPECT_EQ(placer.losses()[i].psn, Psn(i));
  }
}

TEST_F(PlacerTest, ReceiveAMessageOverTheEndOfALongOne_ExpectTheLongOneWholeBefore) {
  Placer placer(Kind::kOrdinary);
  placer.place_last(to(0), message(1, 1024), 1024, false);
  placer.place_last(to(1020), message(2, 8), 8, false);
  EXPECT_TRUE(filled(1, 0, 1024));
  placer.commit();
  EXPECT_TRUE(filled(1, 0, 1020));
  EXPECT_TRUE(filled(2, 1020, 1028));
}

/// Random bursts against a model that applies each placement at once, in order.
TEST(PlacerRandom, ReceiveRandomBursts_ExpectWhatOrderedPlacementsLeave) {
  const uint64_t seed = 4711;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const KindRow& row : kinds()) {
    Placer placer(row.kind);
    std::vector<std::byte> memory(1 << 15), model(1 << 15), packet(1 << 16);
    for (std::byte& byte : packet) byte = static_cast<std::byte>(random.next());
    for (int i = 0; i < 5000; ++i) {
      const size_t length = random.below(random.chance(1, 2) ? 100 : 5000);
      const size_t at = random.below(memory.size() - length);
      const std::byte* from = packet.data() + random.below(packet.size() - length);
      const bool cold = random.chance(1, 2);
      if (random.chance(1, 2)) {
        placer.place(memory.data() + at, from, length, cold);
      } else {
        placer.place_last(memory.data() + at, from, length, cold);
      }
      if (length > 0) std::memcpy(model.data() + at, from, length);
      if (!random.chance(1, 8)) continue;
      placer.commit();
      ASSERT_EQ(memory, model) << row.name << " step " << i;
    }
  }
}

}  // namespace
}  // namespace uroce::copy
