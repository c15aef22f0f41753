#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "mem/rights/region.h"

namespace uroce::mem {
namespace {

/// All bytes of a range, piece by piece.
std::vector<std::byte> bytes_of(const Binding& binding) {
  std::vector<std::byte> bytes;
  for (uint64_t offset = 0; offset < binding.length();) {
    const Piece piece = binding.piece(offset);
    EXPECT_GT(piece.length, 0u);
    bytes.insert(bytes.end(), piece.data, piece.data + piece.length);
    offset += piece.length;
  }
  return bytes;
}

/// Byte i of the region is i modulo 251, wherever it lies.
class LayoutTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 5000;
  static std::byte value(size_t i) { return static_cast<std::byte>(i % 251); }
  static std::vector<std::byte> expected(uint64_t start, uint64_t length) {
    std::vector<std::byte> bytes;
    for (uint64_t i = start; i < start + length; ++i) bytes.push_back(value(i));
    return bytes;
  }
  void expect_every_range(void* memory, Layout layout, uint8_t page_shift) {
    for (uint64_t start = 0; start < kBytes; start += 37) {
      for (uint64_t length = 0; length <= kBytes - start; length += 113) {
        const Binding binding(memory, start, length, layout, page_shift, false);
        ASSERT_EQ(bytes_of(binding), expected(start, length)) << start << "+" << length;
      }
    }
  }
};

TEST_F(LayoutTest, Pages_ExpectTheBytesInTheOrderOfTheList) {
  constexpr uint8_t kShift = 8;
  constexpr size_t kPage = size_t{1} << kShift;
  // The pages lie in memory in reverse.
  const size_t pages = (kBytes + kPage - 1) / kPage;
  std::vector<std::byte> memory(pages * kPage);
  std::vector<std::byte*> list;
  for (size_t i = 0; i < pages; ++i) list.push_back(memory.data() + (pages - 1 - i) * kPage);
  for (size_t i = 0; i < kBytes; ++i) list[i / kPage][i % kPage] = value(i);
  expect_every_range(list.data(), Layout::kPages, kShift);
}

TEST_F(LayoutTest, Segments_ExpectTheBytesInTheOrderOfTheList) {
  std::vector<std::byte> memory(kBytes * 2);
  RunList list;
  size_t at = memory.size();
  size_t length = 1;
  for (uint64_t end = 0; end < kBytes; length = length * 2 % 509) {
    const size_t run = std::min(length, kBytes - end);
    at -= run;
    for (size_t i = 0; i < run; ++i) memory[at + i] = value(end + i);
    end += run;
    list.runs.push_back({.end = end, .data = memory.data() + at});
  }
  ASSERT_GT(list.runs.size(), 10u);
  expect_every_range(&list, Layout::kSegments, 0);
}

}  // namespace
}  // namespace uroce::mem
