#include "host/number_blocks.h"

#include <gtest/gtest.h>

#include <set>

#include "host/control.h"

namespace uroce::host {
namespace {

constexpr uint32_t kUnit = 1u << kBlockBits;
constexpr Instant kNow{1'000'000'000};

TEST(NumberBlocks, AreAlignedPowersOfTwoThatDoNotOverlap) {
  NumberBlocks blocks(7);
  std::set<uint32_t> seen;
  for (uint32_t owner = 1; owner <= 100; ++owner) {
    const uint32_t wanted = owner % 3 == 0 ? 5 * kUnit : owner;
    const auto block = blocks.allocate(wanted, owner, kNow);
    ASSERT_TRUE(block);
    EXPECT_GE(block->count, wanted);
    EXPECT_TRUE(std::has_single_bit(block->count));
    EXPECT_EQ(block->first % block->count, 0u);
    for (uint32_t at = block->first; at < block->first + block->count; at += kUnit) {
      EXPECT_TRUE(seen.insert(at).second);
      EXPECT_EQ(blocks.owner_of({at}), owner);
      EXPECT_EQ(blocks.owner_of({at + kUnit - 1}), owner);
    }
  }
}

TEST(NumberBlocks, TheFirstAndTheLastAreNoPrograms) {
  NumberBlocks blocks(7);
  std::set<uint32_t> seen;
  while (const auto block = blocks.allocate(1, 1, kNow)) seen.insert(block->first);
  EXPECT_EQ(seen.size(), NumberBlocks::kBlocks - 2);
  EXPECT_FALSE(seen.contains(0));
  EXPECT_FALSE(seen.contains((NumberBlocks::kBlocks - 1) * kUnit));
}

TEST(NumberBlocks, RestAfterUse) {
  NumberBlocks blocks(7);
  std::vector<NumberBlock> all;
  while (const auto block = blocks.allocate(1, 1, kNow)) all.push_back(*block);
  blocks.free(all[5], kNow);
  EXPECT_EQ(blocks.owner_of({all[5].first}), 0u);
  EXPECT_FALSE(blocks.allocate(1, 2, kNow + NumberBlocks::kRest - nanoseconds(1)));
  EXPECT_EQ(blocks.allocate(1, 2, kNow + NumberBlocks::kRest), all[5]);
}

TEST(NumberBlocks, ComeBackToTheProgramThatHadThem) {
  NumberBlocks blocks(7);
  const NumberBlock block = *blocks.allocate(3 * kUnit, 1, kNow);
  EXPECT_FALSE(blocks.claim(block, 2)) << "it is in use";
  blocks.free(block, kNow);
  EXPECT_TRUE(blocks.claim(block, 2)) << "also while it rests";
  EXPECT_EQ(blocks.owner_of({block.first}), 2u);
}

TEST(NumberBlocks, WhatIsNoBlockCannotBeClaimed) {
  NumberBlocks blocks(7);
  for (const NumberBlock wrong : {NumberBlock{0, kUnit},
                                  {kUnit, 3 * kUnit},
                                  {kUnit, 2 * kUnit},
                                  {kUnit + 1, kUnit},
                                  {kUnit, 1},
                                  {kUnit, 0},
                                  {(NumberBlocks::kBlocks - 1) * kUnit, kUnit},
                                  {0xFFFF'F000, kUnit},
                                  {0, NumberBlocks::kBlocks * kUnit},
                                  {0x8000'0000, 0x8000'0000}})
    EXPECT_FALSE(blocks.claim(wrong, 1)) << wrong.first << " " << wrong.count;
  EXPECT_FALSE(blocks.allocate(UINT32_MAX, 1, kNow));
}

TEST(NumberBlocks, AreTheUpperBitsOfCommunicationIds) {
  NumberBlocks blocks(7);
  const NumberBlock block = *blocks.allocate(8 * kUnit, 1, kNow);
  const uint32_t id = comm_prefix(block) << (32 - kCommPrefixBits) | 0x12345;
  EXPECT_TRUE(block.contains(owner_of_comm_id(id)));
}

TEST(Message, IsReadOnlyAsItWasWritten) {
  Message message{.type = MessageType::kAttach, .version = kControlVersion, .count = 5};
  set_text(message.name, std::string(100, 'n'));
  const auto bytes = bytes_of(message);
  const auto same = parse_message(bytes);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->count, 5u);
  EXPECT_EQ(text_of(same->name), std::string(63, 'n'));
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(parse_message(bytes.first(length)));
}

TEST(Message, IsRefusedWithAnUnknownTypeOrATextWithoutEnd) {
  for (const uint32_t type : {0u, static_cast<uint32_t>(MessageType::kLast) + 1, UINT32_MAX})
    EXPECT_FALSE(parse_message(bytes_of({.type = static_cast<MessageType>(type)})));
  Message endless{.type = MessageType::kText};
  endless.text.fill('x');
  EXPECT_FALSE(parse_message(bytes_of(endless)));
  endless = {.type = MessageType::kDevice};
  endless.name.fill('x');
  EXPECT_FALSE(parse_message(bytes_of(endless)));
  EXPECT_FALSE(parse_message(bytes_of({.type = MessageType::kAttached, .partition_keys_count = 17})));
}

}  // namespace
}  // namespace uroce::host
