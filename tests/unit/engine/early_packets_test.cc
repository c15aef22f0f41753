#include "engine/poller/early_packets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace uroce::engine {
namespace {

class EarlyPacketsTest : public ::testing::Test {
 protected:
  ~EarlyPacketsTest() override {
    for (EarlyList& each : lists) early.forget(each);
  }

  /// Its payload is `bytes` times the lowest byte of its PSN.
  bool keep(EarlyList& of, uint32_t psn, size_t bytes = 4) {
    std::vector<std::byte> payload(bytes, std::byte(psn));
    wire::Packet packet;
    packet.headers.bth.psn = Psn(psn);
    packet.payload = payload;
    const bool kept = early.keep(of, packet);
    std::ranges::fill(payload, std::byte{0xEE});  // the frame goes back to the port
    return kept;
  }
  /// The PSNs that follow each other from `expected` on, each with its payload.
  std::vector<uint32_t> take(EarlyList& of, uint32_t expected, size_t bytes = 4) {
    std::vector<uint32_t> taken;
    for (Psn psn(expected); const wire::Packet* packet = early.find(of, psn); ++psn) {
      EXPECT_EQ(packet->payload.size(), bytes);
      EXPECT_TRUE(std::ranges::all_of(packet->payload,
                                      [&](std::byte byte) { return byte == std::byte(psn.value()); }));
      taken.push_back(packet->headers.bth.psn.value());
      early.take(of, psn);
    }
    return taken;
  }

  EarlyPackets early;
  static constexpr size_t kFull = EarlyPackets::kMax / EarlyPackets::kOfOneMax;  // queue pairs that have all

  std::vector<EarlyList> lists{EarlyPackets::kListsMax + 1};
  EarlyList& list = lists.front();
};

using Numbers = std::vector<uint32_t>;

TEST_F(EarlyPacketsTest, WhatHasComeOnceMoreIsDropped) {
  early.drop(list, Psn(11));
  for (const uint32_t psn : {11u, 12u, 13u}) EXPECT_TRUE(keep(list, psn));
  early.drop(list, Psn(12));
  early.drop(list, Psn(12));
  early.drop(list, Psn(13 + EarlyPackets::kOfOneMax));
  EXPECT_EQ(EarlyPackets::count(list), 2u);
  EXPECT_EQ(take(list, 11), Numbers{11});
  EXPECT_EQ(take(list, 13), Numbers{13});
  EXPECT_TRUE(list.empty());
}

TEST_F(EarlyPacketsTest, TheyComeInTheOrderOfTheirNumbersAsFarAsThatGoes) {
  for (const uint32_t psn : {12u, 11u, 15u, 14u, 11u, 13u, 17u}) EXPECT_TRUE(keep(list, psn));
  EXPECT_EQ(EarlyPackets::count(list), 6u);
  EXPECT_EQ(take(list, 10), Numbers());
  EXPECT_EQ(take(list, 11), (Numbers{11, 12, 13, 14, 15}));
  EXPECT_EQ(take(list, 16), Numbers());
  EXPECT_TRUE(keep(list, 16));
  EXPECT_EQ(take(list, 16), (Numbers{16, 17}));
  EXPECT_TRUE(list.empty());
}

TEST_F(EarlyPacketsTest, TheFirstBehindANumberIsKnown) {
  EXPECT_EQ(early.first_after(list, Psn(10)), std::nullopt);
  for (const uint32_t psn : {15u, 12u, 10u + EarlyPackets::kOfOneMax - 1}) keep(list, psn);
  EXPECT_EQ(early.first_after(list, Psn(10)), Psn(12));
  EXPECT_EQ(early.first_after(list, Psn(12)), Psn(15));
  EXPECT_EQ(early.first_after(list, Psn(15)), Psn(10 + EarlyPackets::kOfOneMax - 1));
}

TEST_F(EarlyPacketsTest, NumbersWrap) {
  for (const uint32_t psn : {1u, 0xFFFFFFu, 0u}) EXPECT_TRUE(keep(list, psn));
  EXPECT_EQ(take(list, 0xFFFFFF), (Numbers{0xFFFFFF, 0, 1}));
}

TEST_F(EarlyPacketsTest, WhatWasPassedOverIsDroppedWhenItsPlaceIsNeeded) {
  constexpr uint32_t kRound = EarlyPackets::kOfOneMax;
  for (const uint32_t psn : {11u, 12u, 15u}) keep(list, psn);
  EXPECT_EQ(take(list, 15), Numbers{15});
  EXPECT_EQ(take(list, kRound + 11), Numbers());
  EXPECT_EQ(EarlyPackets::count(list), 1u);
  EXPECT_TRUE(keep(list, kRound + 12));
  EXPECT_EQ(EarlyPackets::count(list), 1u);
  EXPECT_EQ(take(list, kRound + 12), Numbers{kRound + 12});
  EXPECT_TRUE(list.empty());
}

TEST_F(EarlyPacketsTest, EachHasItsPayloadUpToTheLargestPathMtu) {
  EXPECT_TRUE(keep(list, 5, 4096));
  EXPECT_FALSE(keep(list, 6, 4097));
  EXPECT_EQ(take(list, 5, 4096), Numbers{5});
  EXPECT_TRUE(keep(list, 7, 0));
  EXPECT_EQ(take(list, 7, 0), Numbers{7});
}

TEST_F(EarlyPacketsTest, SoManyQueuePairsHaveSome) {
  for (size_t i = 0; i + 1 < lists.size(); ++i) ASSERT_TRUE(keep(lists[i], 7));
  EXPECT_FALSE(keep(lists.back(), 7));
  EXPECT_EQ(take(lists[3], 7), Numbers{7});
  EXPECT_TRUE(keep(lists.back(), 7));
}

TEST_F(EarlyPacketsTest, TheirNumberIsBoundedAndWhatWasTakenMakesRoomWhenItIsNotReadAnyMore) {
  for (size_t i = 0; i < kFull; ++i)
    for (uint32_t psn = 0; psn < EarlyPackets::kOfOneMax; ++psn) ASSERT_TRUE(keep(lists[i], psn));
  EXPECT_FALSE(keep(lists.back(), 1));
  EXPECT_EQ(take(list, 0).size(), EarlyPackets::kOfOneMax);
  EXPECT_FALSE(keep(lists.back(), 1));
  early.recycle();
  EXPECT_TRUE(keep(lists.back(), 1));
  early.forget(lists[1]);
  EXPECT_TRUE(lists[1].empty());
  for (uint32_t psn = 0; psn < EarlyPackets::kOfOneMax; ++psn) EXPECT_TRUE(keep(lists[1], psn));
}

}  // namespace
}  // namespace uroce::engine
