#include "base/threads/versioned_words.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace uroce {
namespace {

constexpr size_t kBytes = 100;  // no whole words
constexpr size_t kRoom = 104;

struct Shared {
  Version version;
  alignas(uint64_t) std::array<std::byte, kRoom> bytes{};

  void write(uint64_t version_number) {
    version.begin(version_number - 1);
    std::array<std::byte, kBytes> all{};
    all.fill(static_cast<std::byte>(version_number / 2));
    store_words(bytes.data(), all.data(), kBytes);
    version.end(version_number);
  }
};

TEST(VersionedWords, OfNoWholeWords_ExpectTheBytesAndZerosBehind) {
  Shared shared;
  shared.bytes.fill(std::byte{0xEE});
  shared.write(2);
  EXPECT_EQ(shared.bytes[kBytes - 1], std::byte{1});
  for (size_t i = kBytes; i < kRoom; ++i) EXPECT_EQ(shared.bytes[i], std::byte{0});
  // Behind what was asked for nothing is written to.
  std::array<std::byte, kRoom> copy{};
  copy.fill(std::byte{0x77});
  load_words(copy.data(), shared.bytes.data(), kBytes);
  EXPECT_EQ(copy[kBytes - 1], std::byte{1});
  EXPECT_EQ(copy[kBytes], std::byte{0x77});
}

TEST(VersionedWords, WhileTheyChange_ExpectNoVersionThatAReaderTakes) {
  Shared shared;
  shared.write(2);
  const uint64_t before = shared.version.load();
  EXPECT_EQ(before, 2u);
  EXPECT_TRUE(shared.version.still(before));
  shared.version.begin(3);
  EXPECT_FALSE(shared.version.still(before));
  EXPECT_EQ(shared.version.load(), 3u);
  shared.version.end(4);
  EXPECT_FALSE(shared.version.still(before));
}

TEST(VersionedWords, ReaderBesideAWriter_ExpectNoMixTaken) {
  constexpr uint64_t kVersions = 400'000;
  Shared shared;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> taken{0};
  std::thread reader([&] {
    std::array<std::byte, kBytes> copy{};
    for (uint64_t newest = 0; !done || taken == 0;) {
      const uint64_t before = shared.version.load();
      load_words(copy.data(), shared.bytes.data(), kBytes);
      if (before % 2 != 0 || !shared.version.still(before)) continue;
      ASSERT_GE(before, newest);
      newest = before;
      for (const std::byte one : copy) ASSERT_EQ(one, static_cast<std::byte>(before / 2));
      ++taken;
    }
  });
  for (uint64_t version = 2; version <= kVersions; version += 2) shared.write(version);
  done = true;
  reader.join();
  EXPECT_GT(taken, 0u);
}

}  // namespace
}  // namespace uroce
