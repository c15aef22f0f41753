#include "client/pattern.h"

#include <gtest/gtest.h>

#include <vector>

#include "apps/perf/plan/layout.h"

namespace uroce::perf {
namespace {

TEST(Pattern, IsRecognisedAndTheFirstWrongByteIsNamed) {
  for (const size_t length : {1u, 7u, 8u, 9u, 4096u, 4099u}) {
    std::vector<std::byte> bytes(length);
    client::fill_pattern(bytes, 42);
    EXPECT_FALSE(client::first_difference(bytes, 42).has_value());
    for (const size_t wrong : {size_t{0}, length / 2, length - 1}) {
      bytes[wrong] ^= std::byte{1};
      EXPECT_EQ(client::first_difference(bytes, 42), wrong);
      bytes[wrong] ^= std::byte{1};
    }
  }
}

TEST(Pattern, DiffersBySeed) {
  std::vector<std::byte> bytes(64);
  client::fill_pattern(bytes, 1);
  EXPECT_TRUE(client::first_difference(bytes, 2).has_value());
  EXPECT_TRUE(client::first_touched(bytes).has_value());
}

TEST(Poison, IsUntouchedUntilAByteChanges) {
  std::vector<std::byte> bytes(100, client::kPoison);
  EXPECT_FALSE(client::first_touched(bytes).has_value());
  bytes[99] = std::byte{0};
  EXPECT_EQ(client::first_touched(bytes), 99u);
}

TEST(Layout, SlotsDoNotOverlapAndFitTheArea) {
  Plan plan;
  plan.sizes = parse_sizes("all").value();
  for (const uint64_t size : plan.sizes) {
    const Layout layout = Layout::of(size, depth_for(plan, size));
    EXPECT_GE(layout.slots, 1u);
    EXPECT_GE(layout.stride, size + Layout::kGapBytes);
    EXPECT_LE(layout.offset(layout.slots - 1) + layout.stride, layout.area_bytes());
    EXPECT_LE(layout.area_bytes(), area_bytes_for(plan));
    EXPECT_EQ(layout.offset(layout.slots), layout.offset(0));
  }
}

TEST(Layout, DepthNeverExceedsThePlans) {
  Plan plan;
  plan.depth = 1;
  EXPECT_EQ(depth_for(plan, 1), 1u);
  EXPECT_EQ(depth_for(plan, kSizeMax), 1u);
  plan.depth = 128;
  EXPECT_EQ(depth_for(plan, 64), 128u);
  EXPECT_EQ(depth_for(plan, kSizeMax), 8u);
}

}  // namespace
}  // namespace uroce::perf
