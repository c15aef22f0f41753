#include "base/threads/seqlock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace uroce {
namespace {

using Words = Seqlock<4>::Words;

/// The sequence, in the low half of the first word, belongs to no value.
Words without_sequence(Words words) {
  words[0] &= ~uint64_t{UINT32_MAX};
  return words;
}

Words version(uint64_t n) { return {n << 32, n, ~n, n * n}; }

TEST(Seqlock, ReadWhatWasNeverWritten_ExpectZero) {
  const Seqlock<4> words;
  EXPECT_EQ(words.read(), Words{});
}

TEST(Seqlock, ReadWhatWasWritten) {
  Seqlock<4> words;
  for (uint64_t n = 1; n < 100; ++n) {
    words.write(version(n));
    EXPECT_EQ(without_sequence(words.read()), version(n));
  }
}

TEST(Seqlock, WriteWhileAReaderLooks_ExpectItChanged) {
  Seqlock<4> words;
  words.write(version(1));
  const uint64_t before = words.load(0);
  EXPECT_EQ(words.load(1), version(1)[1]);
  EXPECT_TRUE(words.unchanged(before));
  words.write(version(1));
  EXPECT_FALSE(words.unchanged(before)) << "though the words are the same";
}

/// The counter takes 32 bits, and what comes behind it is the caller's.
TEST(Seqlock, CounterWraps_ExpectItsNeighbourUntouched) {
  Seqlock<4> words;
  const uint64_t last = UINT32_MAX - 1;
  std::memcpy(static_cast<void*>(&words), &last, sizeof last);
  words.write(version(7));
  EXPECT_EQ(words.read(), version(7));
}

/// A writer that loses its core is waited for, but not for ever.
TEST(Seqlock, WriterThatNeverEnds_ExpectTheReaderToGoOn) {
  Seqlock<4> words;
  words.write(version(5));
  const uint64_t odd = words.load(0) + 1;
  std::memcpy(static_cast<void*>(&words), &odd, sizeof odd);
  EXPECT_EQ(words.read(), Words{});
  EXPECT_FALSE(words.unchanged(odd));
}

TEST(Seqlock, ReadersBesideAWriter_ExpectNoMixAndNoStepBack) {
  constexpr uint64_t kVersions = 200'000;
  Seqlock<4> words;
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      for (uint64_t newest = 0; !done;) {
        const Words read = without_sequence(words.read());
        if (read == Words{}) continue;
        ASSERT_EQ(read, version(read[1]));
        ASSERT_GE(read[1], newest);
        newest = read[1];
      }
    });
  }
  for (uint64_t n = 1; n <= kVersions; ++n) words.write(version(n));
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(without_sequence(words.read()), version(kVersions));
}

}  // namespace
}  // namespace uroce
