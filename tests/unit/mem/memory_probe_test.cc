#include "mem/memory_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "mem/region_table.h"

namespace uroce::mem {
namespace {

using Probe = bool (*)(const std::byte*, uint64_t, bool);

/// Eight pages of some mapping, unmapped at the end.
class Mapping {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kBytes = 8 * kPage;

  explicit Mapping(int protection, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1)
      : at_(static_cast<std::byte*>(::mmap(nullptr, kBytes, protection, flags, file, 0))) {}
  ~Mapping() { ::munmap(at_, kBytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::byte* page(size_t number) const { return at_ + number * kPage; }

 private:
  std::byte* at_;
};

/// Both ways of probing must agree: what this kernel does not use, another one does.
class MemoryProbe : public testing::TestWithParam<Probe> {
 protected:
  static bool readable(const std::byte* at, uint64_t length) { return GetParam()(at, length, false); }
  static bool writable(const std::byte* at, uint64_t length) { return GetParam()(at, length, true); }
};
INSTANTIATE_TEST_SUITE_P(Ways, MemoryProbe, testing::Values(probe_memory, probe_pages));

TEST_P(MemoryProbe, OrdinaryMemory_ExpectReadableAndWritable) {
  const Mapping memory(PROT_READ | PROT_WRITE);
  EXPECT_TRUE(readable(memory.page(0), Mapping::kBytes));
  EXPECT_TRUE(writable(memory.page(0), Mapping::kBytes));
  EXPECT_TRUE(writable(memory.page(1) - 1, 2));
  EXPECT_TRUE(writable(memory.page(7) + 4095, 1));
  for (size_t i = 0; i < Mapping::kBytes; ++i) ASSERT_EQ(memory.page(0)[i], std::byte{0});
}

TEST_P(MemoryProbe, ReadOnlyMemory_ExpectNotWritable) {
  const Mapping memory(PROT_READ);
  EXPECT_TRUE(readable(memory.page(0), Mapping::kBytes));
  EXPECT_FALSE(writable(memory.page(0), Mapping::kBytes));
}

TEST_P(MemoryProbe, MemoryWithoutRights_ExpectNeither) {
  const Mapping memory(PROT_NONE);
  EXPECT_FALSE(readable(memory.page(0), 1));
  EXPECT_FALSE(writable(memory.page(0), 1));
}

TEST_P(MemoryProbe, OnePageThatDiffers_ExpectItFoundWhereverItIs) {
  for (size_t odd = 0; odd < 8; ++odd) {
    const Mapping memory(PROT_READ | PROT_WRITE);
    ASSERT_EQ(::mprotect(memory.page(odd), Mapping::kPage, PROT_READ), 0);
    EXPECT_TRUE(readable(memory.page(0), Mapping::kBytes));
    EXPECT_FALSE(writable(memory.page(0), Mapping::kBytes)) << odd;
    ASSERT_EQ(::munmap(memory.page(odd), Mapping::kPage), 0);
    EXPECT_FALSE(readable(memory.page(0), Mapping::kBytes)) << odd;
    EXPECT_TRUE(odd == 0 || writable(memory.page(0), odd * Mapping::kPage));
    EXPECT_TRUE(odd == 7 || writable(memory.page(odd + 1), (7 - odd) * Mapping::kPage));
  }
}

TEST_P(MemoryProbe, UnmappedAddresses_ExpectNeither) {
  EXPECT_FALSE(readable(nullptr, 1));
  EXPECT_FALSE(writable(reinterpret_cast<std::byte*>(0x1000), 4096));
  EXPECT_FALSE(readable(reinterpret_cast<std::byte*>(0xFFFF800000000000), 10));
  EXPECT_FALSE(readable(reinterpret_cast<std::byte*>(UINT64_MAX), 1));
}

TEST_P(MemoryProbe, FileThatIsShorterThanItsMapping_ExpectNoSignal) {
  const int file = ::memfd_create("probe", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, 3 * Mapping::kPage), 0);
  for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
    const Mapping memory(PROT_READ | PROT_WRITE, flags, file);
    EXPECT_TRUE(writable(memory.page(0), 3 * Mapping::kPage));
    EXPECT_FALSE(readable(memory.page(0), 4 * Mapping::kPage));
    EXPECT_FALSE(writable(memory.page(2), 2 * Mapping::kPage));
  }
  ::close(file);
}

TEST_P(MemoryProbe, MemoryWithContent_ExpectNotAByteChanged) {
  const Mapping memory(PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < Mapping::kBytes; ++i) memory.page(0)[i] = static_cast<std::byte>(i * 7);
  EXPECT_TRUE(writable(memory.page(0) + 3, Mapping::kBytes - 5));
  for (size_t i = 0; i < Mapping::kBytes; ++i) ASSERT_EQ(memory.page(0)[i], static_cast<std::byte>(i * 7));
}

TEST_P(MemoryProbe, AnotherThreadWritesMeanwhile_ExpectNoUpdateLost) {
  const Mapping memory(PROT_READ | PROT_WRITE);
  auto* word = reinterpret_cast<uint32_t*>(memory.page(0));
  constexpr uint32_t kUpdates = 300000;
  std::thread writer([&] {
    for (uint32_t i = 1; i <= kUpdates; ++i) {
      __atomic_store_n(word, i, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != i) break;
    }
  });
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) std::this_thread::yield();
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(writable(memory.page(0), Mapping::kBytes));
  writer.join();
  EXPECT_EQ(*word, kUpdates);
}

TEST(Registration, MemoryThatCannotDoWhatIsAsked_ExpectEfaultAndNothingKept) {
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .locked_memory = &locked});
  const Mapping memory(PROT_READ);
  UserRegion region{
      .domain = {1}, .address = memory.page(0), .length = Mapping::kBytes, .access = kRemoteRead};
  EXPECT_TRUE(table.register_user(region).ok());
  const uint64_t charged = locked.bytes();
  for (const Access access : {kLocalWrite, kLocalWrite | kRemoteWrite, kLocalWrite | kRemoteAtomic}) {
    region.access = access;
    EXPECT_EQ(table.register_user(region).error().code, EFAULT);
  }
  ::munmap(memory.page(4), Mapping::kPage);
  region.access = kRemoteRead;
  EXPECT_EQ(table.register_user(region).error().code, EFAULT);
  EXPECT_EQ(table.regions(), 1u);
  EXPECT_EQ(locked.bytes(), charged);
}

}  // namespace
}  // namespace uroce::mem
