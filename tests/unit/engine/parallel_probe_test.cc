#include "engine/platform/parallel_probe.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "engine/platform/processors.h"
#include "tests/support/soon.h"

namespace uroce::engine {
namespace {

constexpr uint64_t kPage = 4096;

/// Reserved memory that nothing has touched yet.
class Untouched {
 public:
  explicit Untouched(uint64_t length) : length_(length) {
    void* made =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(made, MAP_FAILED);
    data_ = static_cast<std::byte*>(made);
  }
  ~Untouched() { ::munmap(data_, length_); }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] uint64_t pages_present() const {
    std::vector<unsigned char> present(length_ / kPage);
    EXPECT_EQ(::mincore(data_, length_, present.data()), 0);
    return static_cast<uint64_t>(
        std::ranges::count_if(present, [](unsigned char page) { return (page & 1) != 0; }));
  }

 private:
  std::byte* data_ = nullptr;
  uint64_t length_ = 0;
};

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Some range that has a part at each end, and several whole ones.
constexpr uint64_t kOffset = 3 * kPage;
constexpr uint64_t kLength = 4 * ParallelProbe::kPartBytes - 7 * kPage;

TEST(ParallelProbe, FillsInEveryPageOfALargeRangeAndNoOther) {
  const Untouched memory(kLength + 2 * kOffset);
  const size_t threads = threads_of_this_process();
  ParallelProbe prober;
  EXPECT_TRUE(prober.probe(memory.data() + kOffset, kLength, true));
  EXPECT_TRUE(soon([&] { return threads_of_this_process() <= threads; })) << "helpers stay";
  EXPECT_GE(memory.pages_present(), kLength / kPage);
  std::vector<unsigned char> present(1);
  ASSERT_EQ(::mincore(memory.data() + kOffset + kLength - kPage, kPage, present.data()), 0);
  EXPECT_EQ(present[0] & 1, 1);
}

TEST(ParallelProbe, FindsTheOnePageThatIsNotThere) {
  const Untouched memory(kLength);
  ParallelProbe prober;
  for (const uint64_t hole : {uint64_t{0}, kLength / 2 / kPage * kPage, kLength - kPage}) {
    ASSERT_EQ(::mprotect(memory.data() + hole, kPage, PROT_READ), 0);
    EXPECT_FALSE(prober.probe(memory.data(), kLength, true)) << hole;
    EXPECT_TRUE(prober.probe(memory.data(), kLength, false)) << hole;
    ASSERT_EQ(::mprotect(memory.data() + hole, kPage, PROT_NONE), 0);
    EXPECT_FALSE(prober.probe(memory.data(), kLength, false)) << hole;
    ASSERT_EQ(::mprotect(memory.data() + hole, kPage, PROT_READ | PROT_WRITE), 0);
  }
}

TEST(ParallelProbe, EveryByteOfASmallRangeCounts) {
  const Untouched memory(4 * kPage);
  ParallelProbe prober;
  EXPECT_TRUE(prober.probe(memory.data() + kPage - 1, 2, true));
  EXPECT_GE(memory.pages_present(), 2u);
}

TEST(Processors, ThoseNearbyAreSomeOfTheAllowed) {
  const std::vector<uint32_t> near = allowed_processors_nearby();
  EXPECT_FALSE(near.empty());
  EXPECT_TRUE(std::ranges::includes(allowed_processors(), near));
}

}  // namespace
}  // namespace uroce::engine
