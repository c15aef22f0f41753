#include "base/tables/memory_calls.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/tables/index_space.h"

// Hooks of a program in front of libc, as communication libraries put them there: this executable's symbols
// come before libc's. One of them knows mremap(2) with four arguments, as it was before MREMAP_FIXED.

namespace {

thread_local bool counting = false;
thread_local int hooked = 0;

void count() {
  if (counting) ++hooked;
}

}  // namespace

extern "C" {

void* mmap(void* place, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  count();
  return reinterpret_cast<void*>(::syscall(SYS_mmap, place, bytes, protection, flags, file, offset));
}
int munmap(void* first, size_t bytes) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_munmap, first, bytes));
}
void* mremap(void* from, size_t bytes, size_t wanted, int flags, ...) noexcept {
  count();
  return reinterpret_cast<void*>(::syscall(SYS_mremap, from, bytes, wanted, flags, nullptr));
}
int madvise(void* first, size_t bytes, int advice) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_madvise, first, bytes, advice));
}

}  // extern "C"

namespace uroce {
namespace {

constexpr size_t kBytes = 1 << 16;

class Hooked : public ::testing::Test {
 protected:
  Hooked() {
    counting = true;
    hooked = 0;
  }
  ~Hooked() override { counting = false; }
};

using MemoryCalls = Hooked;

TEST_F(MemoryCalls, MoveMemoryToWhereItIsWantedWhateverHooksTheProgramHas) {
  std::byte* const reserved = map_memory(nullptr, kBytes, PROT_NONE, MAP_NORESERVE);
  std::byte* const filled = map_memory(nullptr, kBytes, PROT_READ | PROT_WRITE, 0);
  ASSERT_NE(reserved, nullptr);
  ASSERT_NE(filled, nullptr);
  filled[kBytes - 1] = std::byte{42};
  ASSERT_TRUE(move_memory(filled, kBytes, reserved));
  EXPECT_EQ(reserved[kBytes - 1], std::byte{42});
  EXPECT_TRUE(advise_memory(reserved, kBytes, MADV_DONTNEED));
  EXPECT_EQ(reserved[kBytes - 1], std::byte{0});
  unmap_memory(reserved, kBytes);
  EXPECT_EQ(hooked, 0);
}

TEST_F(MemoryCalls, MapMemoryNowhereElseThanWhereItIsWanted) {
  std::byte* const taken = map_memory(nullptr, kBytes, PROT_NONE, 0);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(map_memory(taken, kBytes, PROT_READ, MAP_FIXED_NOREPLACE), nullptr);
  EXPECT_EQ(errno, EEXIST);
  unmap_memory(taken, kBytes);
  EXPECT_EQ(map_memory(taken, kBytes, PROT_READ, MAP_FIXED_NOREPLACE), taken);
  unmap_memory(taken, kBytes);
}

TEST_F(MemoryCalls, MoveNothingThatIsNotThere) {
  std::byte* const place = map_memory(nullptr, kBytes, PROT_NONE, 0);
  std::byte* const gone = map_memory(nullptr, kBytes, PROT_READ, 0);
  unmap_memory(gone, kBytes);
  EXPECT_FALSE(move_memory(gone, kBytes, place));
  EXPECT_FALSE(advise_memory(gone, kBytes, MADV_POPULATE_READ));
  unmap_memory(place, kBytes);
}

/// A table of keys, its end and what stands in it: nothing that a registration cache has to hear of.
TEST_F(MemoryCalls, OfAnIndexSpacePassNoHook) {
  {
    IndexSpace space(1u << 16);
    for (int i = 0; i < 1 << 16; ++i) {
      const auto index = space.allocate();
      if (!index) break;
      *space.at(*index) = std::byte{1};
    }
  }
  EXPECT_EQ(hooked, 0);
}

}  // namespace
}  // namespace uroce
