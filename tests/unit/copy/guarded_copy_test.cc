#include "copy/guarded_copy.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "copy/kernels.h"
#include "tests/support/thread_sanitizer.h"
#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"

namespace uroce::copy {
namespace {

using uroce::testing::FaultCatcher;
using uroce::testing::kUnreadable;
using uroce::testing::kVanishings;
using uroce::testing::Vanishing;
using uroce::testing::VanishingMemory;

constexpr size_t kPage = VanishingMemory::kPage;

struct NamedCopy {
  std::string name;
  CopyFunction copy;
};

std::vector<NamedCopy> all_copies() {
  std::vector<NamedCopy> copies;
  for (const KindRow& row : kinds()) {
    copies.push_back({std::string(row.name) + " hot", row.hot});
    copies.push_back({std::string(row.name) + " cold", row.cold});
  }
  return copies;
}

/// Functions that are left without a return stay on the shadow stack that TSan keeps, which is finite.
constexpr bool kFewFaults = kThreadSanitizer;

/// Bytes on this side of a border, every alignment among them, and beyond it.
std::vector<size_t> lengths_before() {
  if (kFewFaults) return {0, 1, 33};
  std::vector<size_t> lengths(66);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (const size_t length : {127u, 128u, 511u, 640u, 4000u}) lengths.push_back(length);
  return lengths;
}
constexpr size_t kLengthsBeyond[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200, 640, 4000};

class GuardedCopy : public ::testing::Test {
 protected:
  const FaultCatcher catcher_;
  const std::vector<std::byte> ones_ = std::vector<std::byte>(3 * kPage, std::byte{1});
};

void copy_and_count(std::byte* to, const std::byte* from, size_t length, void* sum) {
  std::memcpy(to, from, length);
  *static_cast<size_t*>(sum) += length;
}

TEST_F(GuardedCopy, CopyThatSumsUp_ExpectTheSumOrTheLoss) {
  const VanishingMemory memory(2);
  std::vector<std::byte> to(3 * kPage);
  size_t sum = 5;
  EXPECT_TRUE(guarded_copy_from(copy_and_count, to.data(), memory.data() + 3, 200, &sum));
  EXPECT_EQ(sum, 205u);
  memory.vanish(Vanishing::kNoAccess, kPage);
  EXPECT_FALSE(guarded_copy_from(copy_and_count, to.data(), memory.data() + 3, kPage, &sum));
  EXPECT_TRUE(guarded_copy_from(copy_and_count, to.data(), memory.data() + 3, 7, &sum));
  EXPECT_EQ(sum, 212u);
}

TEST_F(GuardedCopy, MemoryThatIsThere_ExpectTheBytes) {
  const VanishingMemory memory(2);
  std::vector<std::byte> source(kPage);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  for (const auto& [name, copy] : all_copies()) {
    for (const size_t length : kLengthsBeyond) {
      std::memset(memory.data(), 0, memory.size());
      ASSERT_TRUE(guarded_copy_to(copy, memory.data() + 3, source.data() + 1, length)) << name;
      ASSERT_EQ(std::memcmp(memory.data() + 3, source.data() + 1, length), 0) << name;
      ASSERT_EQ(memory.data()[3 + length], std::byte{0}) << name;
      std::vector<std::byte> read(length);
      ASSERT_TRUE(guarded_copy_from(copy, read.data(), memory.data() + 3, length)) << name;
      ASSERT_EQ(std::memcmp(read.data(), source.data() + 1, length), 0) << name;
    }
  }
}

TEST_F(GuardedCopy, WritingAcrossABorderIntoWhatIsGone_ExpectALossAndNothingOutsideTouched) {
  const VanishingMemory memory(2);
  const std::vector<std::byte> zeros(kPage);
  for (const Vanishing how : kVanishings) {
    memory.vanish(how, kPage);
    for (const auto& [name, copy] : all_copies()) {
      for (const size_t before : lengths_before()) {
        for (const size_t beyond : kLengthsBeyond) {
          SCOPED_TRACE(to_string(how) + ", " + name + ": " + std::to_string(before) + " + " +
                       std::to_string(beyond));
          std::byte* const to = memory.data() + kPage - before;
          ASSERT_FALSE(guarded_copy_to(copy, to, ones_.data() + beyond % 16, before + beyond));
          ASSERT_EQ(std::memcmp(memory.data(), zeros.data(), kPage - before), 0);
          std::memset(to, 0, before);
        }
      }
    }
    memory.come_back();
  }
}

TEST_F(GuardedCopy, ReadingAcrossABorderFromWhatIsGone_ExpectALoss) {
  const VanishingMemory memory(2);
  std::vector<std::byte> to(3 * kPage);
  for (const Vanishing how : kUnreadable) {
    memory.vanish(how, kPage);
    for (const auto& [name, copy] : all_copies()) {
      for (const size_t before : lengths_before()) {
        for (const size_t beyond : kLengthsBeyond) {
          SCOPED_TRACE(to_string(how) + ", " + name + ": " + std::to_string(before) + " + " +
                       std::to_string(beyond));
          const std::byte* const from = memory.data() + kPage - before;
          ASSERT_FALSE(guarded_copy_from(copy, to.data() + beyond % 16, from, before + beyond));
        }
      }
    }
    memory.come_back();
  }
}

TEST_F(GuardedCopy, AHoleInTheMiddle_ExpectALossWhicheverEndIsCopiedFirst) {
  const VanishingMemory memory(3);
  munmap(memory.data() + kPage, kPage);
  for (const auto& [name, copy] : all_copies()) {
    ASSERT_FALSE(guarded_copy_to(copy, memory.data() + 100, ones_.data(), 2 * kPage + 100)) << name;
  }
  memory.come_back();
}

TEST_F(GuardedCopy, ReadingWhatIsOnlyReadOnly_ExpectTheBytes) {
  const VanishingMemory memory(1);
  std::memset(memory.data(), 5, kPage);
  memory.vanish(Vanishing::kReadOnly);
  std::vector<std::byte> to(kPage);
  ASSERT_TRUE(guarded_copy_from(copy_ordinary, to.data(), memory.data(), kPage));
  EXPECT_EQ(to, std::vector<std::byte>(kPage, std::byte{5}));
}

TEST_F(GuardedCopy, HugepagesOfATruncatedFile_ExpectALoss) {
  constexpr size_t kHuge = size_t{2} << 20;
  std::optional<VanishingMemory> memory;
  try {
    memory.emplace(2, kHuge);
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << "no hugepages: " << error.what();
  }
  std::memset(memory->data(), 0, kHuge);
  memory->vanish(Vanishing::kTruncated, kHuge);
  for (const auto& [name, copy] : all_copies()) {
    ASSERT_FALSE(guarded_copy_to(copy, memory->data() + kHuge - 10, ones_.data(), 1000)) << name;
    ASSERT_FALSE(guarded_copy_to(copy, memory->data() + kHuge + kPage, ones_.data(), 1000)) << name;
  }
}

/// The caller goes on as after any call: its registers, its errno, its signal mask and its alternate stack.
TEST_F(GuardedCopy, ALoss_ExpectNothingElseOfTheThreadChanged) {
  const VanishingMemory memory(1);
  memory.vanish(Vanishing::kUnmapped);
  std::vector<std::byte> stack(64 << 10);
  stack_t alternate = {};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  stack_t before = {};
  ASSERT_EQ(sigaltstack(&alternate, &before), 0);
  sigset_t mask_before;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  errno = 4711;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    // Enough values alive across the call to fill every register that it has to keep.
    const uint64_t a = i * 3, b = i * 5, c = i * 7, d = i * 11, e = i * 13, f = i * 17;
    const bool lost = !guarded_copy_to(copy_ordinary, memory.data() + i, ones_.data(), 8);
    sum += lost ? a + b + c + d + e + f : 0;
  }
  EXPECT_EQ(sum, 56u * 999 * 1000 / 2);
  EXPECT_EQ(errno, 4711);
  sigset_t mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int signal = 1; signal < 65; ++signal)
    EXPECT_EQ(sigismember(&mask_before, signal), sigismember(&mask_after, signal)) << signal;
  EXPECT_EQ(sigaltstack(&before, &alternate), 0);
  EXPECT_EQ(alternate.ss_flags & SS_ONSTACK, 0);
  memory.come_back();
}

using GuardedCopyDeathTest = GuardedCopy;

/// What is not the guarded end is a bug of ours, and kills.
TEST_F(GuardedCopyDeathTest, AFaultAtTheOtherEnd_ExpectItToKill) {
  const VanishingMemory memory(1);
  std::vector<std::byte> ours(64);
  memory.vanish(Vanishing::kNoAccess);
  EXPECT_EXIT(guarded_copy_to(copy_ordinary, ours.data(), memory.data(), 8),
              ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(guarded_copy_from(copy_ordinary, memory.data(), ours.data(), 8),
              ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(GuardedCopyDeathTest, AFaultAfterALoss_ExpectItToKill) {
  const VanishingMemory memory(1);
  memory.vanish(Vanishing::kNoAccess);
  EXPECT_EXIT(
      {
        if (guarded_copy_to(copy_ordinary, memory.data(), ones_.data(), 8)) std::_Exit(1);
        *reinterpret_cast<volatile char*>(memory.data()) = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace uroce::copy
