// Copies that set no guard: what they copy, in which order, and how they fail at each of their ends.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "copy/guarded_copy.h"
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
constexpr size_t kLongest = 256;
constexpr std::byte kOld{0xA5};

std::vector<std::byte> numbered(size_t length) {
  std::vector<std::byte> bytes(length);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(1 + i % 101);
  return bytes;
}

/// Every length, and for each the bytes that lie before a border that the copy crosses. `visit(length,
/// before)`.
template <typename Visit>
void for_each_crossing(Visit visit) {
  for (size_t length = 1; length <= kLongest; ++length) {
    for (size_t before = 0; before < length; ++before) {
      visit(length, before);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

std::string crossing(size_t length, size_t before) {
  return std::to_string(before) + " of " + std::to_string(length) + " before the border";
}

class ShortCopies : public ::testing::Test {
 protected:
  using Copy = bool (*)(std::byte*, const std::byte*, size_t);

  /// Every length to every alignment: exactly these bytes.
  void expect_exact(Copy copy, size_t length_max) {
    std::vector<std::byte> target(length_max + 256);
    for (size_t offset = 0; offset < 64; ++offset) {
      for (size_t length = 0; length <= length_max; ++length) {
        std::memset(target.data(), 0xA5, target.size());
        std::byte* const to = target.data() + 64 + offset;
        const std::byte* const from = source_.data() + length % 19;
        ASSERT_TRUE(copy(to, from, length));
        ASSERT_EQ(std::memcmp(to, from, length), 0) << "offset " << offset << " length " << length;
        ASSERT_TRUE(to[-1] == kOld && to[length] == kOld) << "offset " << offset << " length " << length;
      }
    }
  }

  const std::vector<std::byte> source_ = numbered(2 * kPage);
};

TEST_F(ShortCopies, ReadEveryLengthToEveryOffset) { expect_exact(guarded_read, 300); }

TEST_F(ShortCopies, StoreEveryLengthToEveryOffset) { expect_exact(guarded_store_ascending, 300); }

TEST_F(ShortCopies, ReadAcrossABorderFromWhatIsGone_ExpectALossAndNothingBesideTouched) {
  const FaultCatcher catcher;
  const VanishingMemory memory(2);
  std::vector<std::byte> target(kLongest + 32);
  for (const Vanishing how : kUnreadable) {
    memory.vanish(how, kPage);
    for_each_crossing([&](size_t length, size_t before) {
      std::byte* const to = target.data() + 1 + before % 16;
      to[-1] = to[length] = kOld;
      const bool read = guarded_read(to, memory.data() + kPage - before, length);
      ASSERT_TRUE(!read && to[-1] == kOld && to[length] == kOld)
          << to_string(how) << ", " << crossing(length, before);
    });
    memory.come_back();
  }
}

TEST_F(ShortCopies, ReadAcrossABorderBehindWhatIsGone_ExpectALoss) {
  const FaultCatcher catcher;
  const VanishingMemory memory(2);
  std::vector<std::byte> target(kLongest);
  ASSERT_EQ(munmap(memory.data(), kPage), 0);
  for_each_crossing([&](size_t length, size_t before) {
    const bool read = guarded_read(target.data(), memory.data() + kPage - before, length);
    ASSERT_EQ(read, before == 0) << crossing(length, before);
  });
}

TEST_F(ShortCopies, ReadUpToABorder_ExpectTheBytes) {
  const VanishingMemory memory(2);
  std::memcpy(memory.data(), source_.data(), kPage);
  memory.vanish(Vanishing::kUnmapped, kPage);
  std::vector<std::byte> target(kLongest);
  for (size_t length = 0; length <= kLongest; ++length) {
    const std::byte* const from = memory.data() + kPage - length;
    ASSERT_TRUE(guarded_read(target.data(), from, length));
    ASSERT_EQ(std::memcmp(target.data(), from, length), 0) << length;
  }
}

TEST_F(ShortCopies, StoreAcrossABorderIntoWhatIsGone_ExpectALossAndWhatIsBeforeTheBorder) {
  const FaultCatcher catcher;
  const VanishingMemory memory(2);
  for (const Vanishing how : kVanishings) {
    memory.vanish(how, kPage);
    for_each_crossing([&](size_t length, size_t before) {
      std::byte* const to = memory.data() + kPage - before;
      std::memset(to - 64, 0xA5, 64 + before);
      const std::byte* const from = source_.data() + length % 16;
      ASSERT_FALSE(guarded_store_ascending(to, from, length)) << crossing(length, before);
      ASSERT_EQ(std::memcmp(to, from, before), 0) << to_string(how) << ", " << crossing(length, before);
      ASSERT_EQ(to[-1], kOld) << crossing(length, before);
    });
    memory.come_back();
  }
}

TEST_F(ShortCopies, StoreAcrossABorderBehindWhatIsGone_ExpectALossAndNothingStored) {
  const FaultCatcher catcher;
  const VanishingMemory memory(2);
  std::memset(memory.data(), 0xA5, 2 * kPage);
  ASSERT_EQ(mprotect(memory.data(), kPage, PROT_READ), 0);
  const std::vector<std::byte> old(2 * kPage, kOld);
  for_each_crossing([&](size_t length, size_t before) {
    if (before == 0) return;
    ASSERT_FALSE(guarded_store_ascending(memory.data() + kPage - before, source_.data(), length));
    ASSERT_EQ(std::memcmp(memory.data(), old.data(), 2 * kPage), 0) << crossing(length, before);
  });
}

/// Memory at the end of a copy that is not guarded: the fault is not the stack's, and its handler here brings
/// the memory back and lets the thread go on, so that all of them can be tried.
class OtherEnd : public ShortCopies {
 protected:
  void SetUp() override {
    memory_ = &own_;
    refused_ = 0;
    struct sigaction action = {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      if (take_fault(signal, *info, context)) return;
      refused_ = refused_ + 1;
      mprotect(memory_->data(), memory_->size(), PROT_READ | PROT_WRITE);
    };
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  void TearDown() override { sigaction(SIGSEGV, &before_, nullptr); }

  const VanishingMemory own_{2};
  static inline const VanishingMemory* memory_ = nullptr;
  static inline volatile int refused_ = 0;
  struct sigaction before_ = {};
};

TEST_F(OtherEnd, ReadToWhatIsGone_ExpectTheFaultRefused) {
  for_each_crossing([&](size_t length, size_t before) {
    own_.vanish(Vanishing::kNoAccess, kPage);
    refused_ = 0;
    std::byte* const to = own_.data() + kPage - before;
    ASSERT_TRUE(guarded_read(to, source_.data(), length)) << crossing(length, before);
    ASSERT_EQ(refused_, 1) << crossing(length, before);
    ASSERT_EQ(std::memcmp(to, source_.data(), length), 0) << crossing(length, before);
  });
}

TEST_F(OtherEnd, StoreFromWhatIsGone_ExpectTheFaultRefused) {
  std::memcpy(own_.data(), source_.data(), 2 * kPage);
  std::vector<std::byte> target(kLongest + 8);
  for_each_crossing([&](size_t length, size_t before) {
    own_.vanish(Vanishing::kNoAccess, kPage);
    refused_ = 0;
    std::byte* const to = target.data() + length % 8;
    const std::byte* const from = own_.data() + kPage - before;
    ASSERT_TRUE(guarded_store_ascending(to, from, length)) << crossing(length, before);
    ASSERT_EQ(refused_, 1) << crossing(length, before);
    ASSERT_EQ(std::memcmp(to, from, length), 0) << crossing(length, before);
  });
}

/// An address at the guarded end means nothing when the thread is somewhere else.
TEST_F(OtherEnd, TouchAfterALoss_ExpectTheFaultRefused) {
  own_.vanish(Vanishing::kNoAccess);
  std::byte byte{};
  EXPECT_FALSE(guarded_store_ascending(own_.data(), source_.data(), 8));
  EXPECT_FALSE(guarded_read(&byte, own_.data(), 1));
  EXPECT_EQ(refused_, 0);
  *static_cast<volatile std::byte*>(own_.data()) = byte;
  EXPECT_EQ(refused_, 1);
}

using ShortCopiesDeathTest = ShortCopies;

TEST_F(ShortCopiesDeathTest, AFaultAtTheOtherEnd_ExpectItToKill) {
  const FaultCatcher catcher;
  const VanishingMemory memory(1);
  std::vector<std::byte> ours(64);
  memory.vanish(Vanishing::kNoAccess);
  EXPECT_EXIT(guarded_store_ascending(ours.data(), memory.data(), 8), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(guarded_read(memory.data(), ours.data(), 64), ::testing::KilledBySignal(SIGSEGV), "");
}

/// The caller goes on as after any call.
TEST_F(ShortCopies, ALoss_ExpectTheCallersRegistersKept) {
  const FaultCatcher catcher;
  const VanishingMemory memory(1);
  memory.vanish(Vanishing::kUnmapped);
  std::byte to[64];
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t a = i * 3, b = i * 5, c = i * 7, d = i * 11, e = i * 13, f = i * 17;
    const bool lost = !guarded_store_ascending(memory.data() + i, source_.data(), 1 + i % 64) &&
                      !guarded_read(to, memory.data() + i, 1 + i % 64);
    sum += lost ? a + b + c + d + e + f : 0;
  }
  EXPECT_EQ(sum, 56u * 999 * 1000 / 2);
  memory.come_back();
}

// Instruction by instruction. ThreadSanitizer holds such signals back.
#if !defined(__SANITIZE_THREAD__)

/// What a thread that looked after each instruction of a store would have seen.
struct Watched {
  const std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t length = 0;
  size_t stored = 0;  // so many of the first bytes
  bool in_order = true;
  bool words_whole = true;

  void look() {
    size_t now = stored;
    while (now < length && to[now] == from[now]) ++now;
    for (size_t i = now; i < length; ++i) in_order = in_order && to[i] == kOld;
    const auto first = reinterpret_cast<uintptr_t>(to + stored);
    const size_t step = now - stored;
    words_whole = words_whole && (step == 0 || (step <= 8 && first % step == 0 && (step & (step - 1)) == 0));
    stored = now;
  }
};
Watched watched;

void step_by_step(bool on) {
  // The bytes below the stack pointer may be the function's.
  if (on) {
    asm volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp"
                 :
                 :
                 : "cc", "memory");
  } else {
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp"
        :
        :
        : "cc", "memory");
  }
}

TEST_F(ShortCopies, WatchEachInstructionOfAStore_ExpectWholeWordsInAscendingOrder) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer delivers signals later than the processor raises them";
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) { watched.look(); };
  sigaction(SIGTRAP, &action, &before);
  alignas(64) std::byte target[256];
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t length = 1; length <= 80; ++length) {
      std::memset(target, 0xA5, sizeof(target));
      watched = {.to = target + offset, .from = source_.data(), .length = length};
      step_by_step(true);
      uroce_store_ascending(target + offset, source_.data(), length);
      step_by_step(false);
      ASSERT_TRUE(watched.stored == length && watched.in_order && watched.words_whole)
          << "offset " << offset << " length " << length << " stored " << watched.stored;
    }
  }
  sigaction(SIGTRAP, &before, nullptr);
}

#endif

}  // namespace
}  // namespace uroce::copy
