#include "mem/process/memory_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "mem/keys/region_table.h"
#include "mem/process/mapping_check.h"

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

/// All ways must agree: what this kernel does not use, another one does.
class MemoryProbe : public testing::TestWithParam<Probe> {
 protected:
  static bool readable(const std::byte* at, uint64_t length) { return GetParam()(at, length, false); }
  static bool writable(const std::byte* at, uint64_t length) { return GetParam()(at, length, true); }
};
INSTANTIATE_TEST_SUITE_P(Ways, MemoryProbe,
                         testing::Values(probe_memory, probe_pages, check_memory, check_by_queries,
                                         check_by_list));

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

constexpr uint64_t kGiB = 1ull << 30;

/// Reserved, and more than most machines have.
class Untouched {
 public:
  explicit Untouched(uint64_t bytes)
      : bytes_(bytes),
        at_(static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    // Else one touch is a hugepage, or none.
    ::madvise(at_, bytes, MADV_NOHUGEPAGE);
  }
  ~Untouched() { ::munmap(at_, bytes_); }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  [[nodiscard]] std::byte* data() const { return at_; }
  [[nodiscard]] uint64_t pages_present() const {
    std::vector<unsigned char> present(kGiB / Mapping::kPage);
    uint64_t sum = 0;
    for (uint64_t at = 0; at < bytes_; at += kGiB) {
      EXPECT_EQ(::mincore(at_ + at, std::min(kGiB, bytes_ - at), present.data()), 0);
      sum += std::accumulate(present.begin(), present.end(), uint64_t{0});
    }
    return sum;
  }

 private:
  uint64_t bytes_;
  std::byte* at_;
};

TEST(Registration, UntouchedMemoryOfAnySize_ExpectNoneOfItPopulated) {
  constexpr uint64_t kBytes = 64 * kGiB;
  const Untouched memory(kBytes);
  ASSERT_NE(memory.data(), MAP_FAILED);
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .locked_memory = &locked, .memlock = LockedMemory::Limit::kIgnored});
  const UserRegion region{
      .domain = {1}, .address = memory.data(), .length = kBytes, .access = kLocalWrite | kRemoteWrite};
  for (const auto way : {check_memory, check_by_queries, check_by_list})
    EXPECT_TRUE(way(memory.data(), kBytes, true));
  const auto keys = table.register_user(region);
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(table.reregister(keys->lkey, {.access = kLocalWrite}).ok());
  EXPECT_EQ(memory.pages_present(), 0u);
  EXPECT_TRUE(table.deregister(keys->lkey).ok());
  ASSERT_EQ(::mprotect(memory.data() + kBytes / 2, Mapping::kPage, PROT_READ), 0);
  EXPECT_EQ(table.register_user(region).error().code, EFAULT);
  ASSERT_EQ(::munmap(memory.data() + kBytes / 2, Mapping::kPage), 0);
  EXPECT_EQ(table.register_user(region).error().code, EFAULT);
}

/// What is behind the end of a file is found, as far as it is the end of the range in a mapping.
TEST(Registration, ALargeFileThatIsShorterThanItsMapping_ExpectEfault) {
  constexpr uint64_t kBytes = 4 * kPopulatedBytesMax;
  const int file = ::memfd_create("registered", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, kBytes - 1), 0);
  void* const at = ::mmap(nullptr, kBytes + Mapping::kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  ASSERT_NE(at, MAP_FAILED);
  LockedMemory locked;
  RegionTable table({.entries_max = 64, .locked_memory = &locked});
  UserRegion region{
      .domain = {1}, .address = static_cast<std::byte*>(at), .length = kBytes, .access = kLocalWrite};
  EXPECT_TRUE(table.register_user(region).ok());
  ++region.length;
  EXPECT_EQ(table.register_user(region).error().code, EFAULT);
  ::munmap(at, kBytes + Mapping::kPage);
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
