// What the fuzzer asks of the parsers of shared memory and control messages, asked of inputs that are the
// same in every run.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/values/random.h"
#include "shared_property.h"

namespace uroce::fuzz {
namespace {

TEST(SharedMemory, RandomChoices) {
  SharedDepth total;
  for (uint64_t seed = 1; seed <= 30'000; ++seed) {
    Random random(seed);
    std::vector<std::byte> input(20 + random.below(600));
    for (std::byte& byte : input) byte = static_cast<std::byte>(random.next());
    try {
      total += check_shared(input);
    } catch (const std::logic_error& broken) {
      FAIL() << "seed " << seed << " breaks: " << broken.what();
    }
  }
  EXPECT_GT(total.messages, 0u);
  EXPECT_GT(total.frames, 0u);
  EXPECT_GT(total.reclaimed, 0u);
  EXPECT_GT(total.broken, 0u);
  EXPECT_GT(total.connections, 0u);
  EXPECT_GT(total.records, 0u);
}

}  // namespace
}  // namespace uroce::fuzz
