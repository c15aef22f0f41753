#include "mem/regions/null_region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};

class NullRegion : public testing::Test {
 protected:
  Binding resolve(uint64_t address, uint64_t length, Access needed, DomainId domain = kOurs) {
    return table.resolve(key, {domain, {}}, address, length, needed);
  }
  /// Every byte of the range once.
  template <typename See>
  static void see_all(const Binding& binding, See see) {
    for (uint64_t at = 0; at < binding.length();) {
      const Piece piece = binding.piece(at);
      ASSERT_GT(piece.length, 0u);
      ASSERT_LE(piece.length, binding.length() - at);
      see(piece);
      at += piece.length;
    }
  }

  RegionTable table{{.entries_max = 64}};
  MemoryKey key = *make_null_region(table, kOurs);
};

TEST_F(NullRegion, AnyRangeIsReadAsZerosWhateverWasWritten) {
  for (const uint64_t address : {uint64_t{0}, uint64_t{0xFEDC'BA98'7654'3210}, UINT64_MAX - 200'000}) {
    for (const uint64_t length : {uint64_t{1}, kNullBytes, 3 * kNullBytes + 7}) {
      const Binding to = resolve(address, length, kLocalWrite);
      ASSERT_TRUE(to.ok());
      see_all(to, [](const Piece& piece) { std::memset(piece.data, 0x5A, piece.length); });
      const Binding from = resolve(address, length, kLocalRead);
      ASSERT_TRUE(from.ok());
      see_all(from, [](const Piece& piece) {
        EXPECT_TRUE(std::all_of(piece.data, piece.data + piece.length,
                                [](std::byte byte) { return byte == std::byte{0}; }));
      });
    }
  }
}

TEST_F(NullRegion, IsForNoPeerAndNoOtherDomain) {
  for (const Access right : {kRemoteRead, kRemoteWrite, kRemoteAtomic})
    EXPECT_EQ(resolve(0, 8, right).fault(), Fault::kAccess);
  EXPECT_EQ(resolve(0, 8, kLocalRead, {2}).fault(), Fault::kDomain);
  EXPECT_EQ(make_null_region(table, {}).error().code, EINVAL);
}

TEST_F(NullRegion, EndsAndIsGone) {
  EXPECT_TRUE(end_null_region(table, key).ok());
  EXPECT_EQ(resolve(0, 8, kLocalRead).fault(), Fault::kKey);
  EXPECT_EQ(end_null_region(table, key).error().code, EINVAL);
}

}  // namespace
}  // namespace uroce::mem
