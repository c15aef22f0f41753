// What the fuzzers ask of frames and datagrams from the link, asked of such that are the same in every run.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/values/random.h"
#include "port_property.h"
#include "services_property.h"

namespace uroce::fuzz {
namespace {

/// All inputs came so deep together.
template <typename Depth, typename Check>
Depth run(uint64_t inputs, size_t bytes_max, Check check) {
  Depth total;
  for (uint64_t seed = 1; seed <= inputs; ++seed) {
    Random random(seed);
    std::vector<std::byte> input(200 + random.below(bytes_max));
    for (std::byte& byte : input) byte = static_cast<std::byte>(random.next());
    try {
      total += check(input);
    } catch (const std::logic_error& broken) {
      ADD_FAILURE() << "seed " << seed << " breaks: " << broken.what();
      return total;
    }
  }
  return total;
}

TEST(Port, FramesOfRandomChoices) {
  const auto total = run<PortDepth>(3'000, 3'000, check_port);
  for (size_t i = 0; i < total.classified.size(); ++i) {
    const bool to_group = i == 1;  // the frames are for a group without members
    EXPECT_EQ(total.classified[i] == 0, to_group) << "kind " << i;
  }
  EXPECT_GT(total.hits, 0u);
  EXPECT_GT(total.answered, 0u);
  EXPECT_GT(total.echoes, 0u);
  EXPECT_GT(total.queries, 0u);
  EXPECT_GT(total.reports, 0u);
  EXPECT_GT(total.learned, 0u);
}

TEST(Gsi, DatagramsOfRandomChoices) {
  const auto total = run<ServicesDepth>(1'000, 3'000, check_services);
  EXPECT_GT(total.received, 0u);
  EXPECT_GT(total.dropped, 0u);
  EXPECT_GT(total.sent, 0u);
  EXPECT_GT(total.events, 0u);
  EXPECT_GT(total.established, 0u);
}

}  // namespace
}  // namespace uroce::fuzz
