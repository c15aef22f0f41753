#include "mem/regions/advice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <vector>

#include "mem/regions/dma_region.h"

namespace uroce::mem {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPages = 8;
constexpr uint64_t kIova = 0x900000;
constexpr DomainId kOurs{1};

/// A region in fresh pages, some of which are given back to the kernel after the registration.
class AdviceTest : public ::testing::Test {
 protected:
  AdviceTest() {
    EXPECT_NE(static_cast<void*>(first), MAP_FAILED);
    key = table.register_user({kOurs, first, kPages * kPage, kIova, kLocalWrite}).value().lkey;
    EXPECT_EQ(::madvise(first, kPages * kPage, MADV_DONTNEED), 0);
  }
  ~AdviceTest() override { ::munmap(first, kPages * kPage); }

  int errno_of(Advice advice, std::vector<AdvisedRange> ranges, DomainId domain = kOurs) {
    const Status status = advise(table, domain, advice, ranges);
    return status ? 0 : status.error().code;
  }
  [[nodiscard]] size_t pages_there() const {
    std::array<unsigned char, kPages> there{};
    EXPECT_EQ(::mincore(first, kPages * kPage, there.data()), 0);
    size_t count = 0;
    for (const unsigned char page : there) count += page & 1;
    return count;
  }

  std::byte* const first = static_cast<std::byte*>(
      ::mmap(nullptr, kPages* kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  LockedMemory locked;
  RegionTable table{{.entries_max = 64, .locked_memory = &locked}};
  MemoryKey key;
};

TEST_F(AdviceTest, PrefetchForWriting_ExpectThePagesOfTheRangeThere) {
  EXPECT_EQ(pages_there(), 0u);
  EXPECT_EQ(errno_of(Advice::kPrefetchPresent, {{key, kIova, kPages * kPage}}), 0);
  EXPECT_EQ(pages_there(), 0u);
  EXPECT_EQ(errno_of(Advice::kPrefetchWrite, {{key, kIova + kPage + 7, kPage}, {key, kIova + 7 * kPage, 1}}),
            0);
  EXPECT_EQ(pages_there(), 3u);
  EXPECT_EQ(errno_of(Advice::kPrefetch, {{key, kIova, kPages * kPage}}), 0);
  EXPECT_EQ(errno_of(Advice::kPrefetch, {{key, kIova + kPages * kPage, 0}}), 0);
}

TEST_F(AdviceTest, Refusals) {
  const MemoryKey readable = table.register_user({kOurs, first, kPage, 0, kRemoteRead}).value().lkey;
  const MemoryKey of_bus = make_dma_region(table, kOurs, kLocalWrite).value();
  const AdvisedRange good{key, kIova, kPage};
  EXPECT_EQ(::madvise(first, kPages * kPage, MADV_DONTNEED), 0);
  struct Case {
    const char* what;
    AdvisedRange range;
    int error;
  };
  const std::vector<Case> cases = {
      {"no such key", {MemoryKey{key.value ^ 1}, kIova, 1}, ENOENT},
      {"no such index", {MemoryKey{0xFFFFFF00}, kIova, 1}, ENOENT},
      {"not a user region", {of_bus, 0, 1}, EINVAL},
      {"read-only", {readable, 0, 1}, EPERM},
      {"before it", {key, kIova - 1, 1}, EFAULT},
      {"behind it", {key, kIova + kPages * kPage, 1}, EFAULT},
      {"longer than it", {key, kIova + 1, kPages * kPage}, EFAULT},
      {"a range that wraps", {key, kIova + 1, UINT64_MAX}, EFAULT},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(errno_of(Advice::kPrefetchWrite, {good, one.range}), one.error) << one.what;
    EXPECT_EQ(pages_there(), 0u) << one.what;
  }
  EXPECT_EQ(errno_of(Advice::kPrefetch, {good}, DomainId{2}), EPERM) << "another domain";
  EXPECT_EQ(errno_of(Advice::kPrefetch, {{readable, 0, 1}}), 0);
  EXPECT_EQ(::munmap(first + kPage, kPage), 0);
  EXPECT_EQ(errno_of(Advice::kPrefetch, {{key, kIova, 3 * kPage}}), EFAULT) << "a page that is not there";
  EXPECT_EQ(::mprotect(first, kPage, PROT_READ), 0);
  EXPECT_EQ(errno_of(Advice::kPrefetchWrite, {good}), EFAULT) << "a page that is read-only";
}

}  // namespace
}  // namespace uroce::mem
