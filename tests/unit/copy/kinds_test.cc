#include <gtest/gtest.h>
#include <immintrin.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "copy/kernels.h"
#include "copy/kind.h"

namespace uroce::copy {
namespace {

std::vector<std::byte> random_bytes(Random& random, size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

/// Copies with `copy` into the middle of a poisoned buffer; true when exactly the target range changed, and
/// rightly.
bool copies_exactly(CopyFunction copy, Random& random, size_t offset, size_t length) {
  constexpr size_t kMargin = 128;
  const std::vector<std::byte> source = random_bytes(random, length + 8);
  const size_t skew = random.below(8);
  alignas(64) static std::byte arena[kMargin + 64 + 9000 + kMargin];
  const size_t total = kMargin + offset + length + kMargin;
  std::memset(arena, 0xA5, total);
  copy(arena + kMargin + offset, source.data() + skew, length);
  _mm_sfence();
  for (size_t i = 0; i < total; ++i) {
    const size_t begin = kMargin + offset;
    const bool inside = i >= begin && i < begin + length;
    const std::byte expected = inside ? source[skew + i - begin] : std::byte{0xA5};
    if (arena[i] != expected) return false;
  }
  return true;
}

TEST(Kinds, TableHasTheKindsOfEveryCpu) {
  EXPECT_EQ(kinds().front().kind, Kind::kAuto);
  for (const Kind kind :
       {Kind::kAuto, Kind::kOrdinary, Kind::kString, Kind::kNonTemporal, Kind::kNonTemporal128}) {
    ASSERT_NE(find_kind(kind), nullptr);
    EXPECT_EQ(find_kind(find_kind(kind)->name), find_kind(kind));
  }
  EXPECT_EQ(find_kind("no such kind"), nullptr);
}

TEST(Kinds, WidestStreamingIsWhatNonTemporalMeans) {
  const KindRow& widest = kinds().back();
  EXPECT_EQ(find_kind(Kind::kNonTemporal)->cold, widest.cold);
  EXPECT_EQ(find_kind(Kind::kAuto)->cold, widest.cold);
  EXPECT_EQ(find_kind(Kind::kAuto)->hot, find_kind(Kind::kOrdinary)->hot);
}

TEST(Kinds, EveryKindCopiesEveryLengthAtEveryOffsetOfALine) {
  const uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const KindRow& row : kinds()) {
    for (const CopyFunction copy : {row.hot, row.cold}) {
      for (size_t offset = 0; offset < 64; ++offset) {
        for (size_t length = 0; length <= 300; length += 1 + length / 64) {
          ASSERT_TRUE(copies_exactly(copy, random, offset, length))
              << row.name << " offset " << offset << " length " << length;
        }
        const size_t length = random.below(9000);
        ASSERT_TRUE(copies_exactly(copy, random, offset, length))
            << row.name << " offset " << offset << " length " << length;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::copy
