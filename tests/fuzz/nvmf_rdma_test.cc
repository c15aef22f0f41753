// What the fuzzer asks of hosts over RDMA, asked of hosts that make the same choices in every run.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "nvmf_rdma_property.h"

namespace uroce::fuzz {
namespace {

using nvmf::RdmaEvent;

uint64_t wanted(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// UROCE_REQUESTS=N and UROCE_CAPSULES=N: until there were so many. UROCE_SEED=N: the first seed.
TEST(HostsOverRdma, OfRandomChoices) {
  const uint64_t requests = wanted("UROCE_REQUESTS", 600);
  const uint64_t capsules = wanted("UROCE_CAPSULES", 6'000);
  RdmaDepth depth;
  for (uint64_t seed = wanted("UROCE_SEED", 1); depth.requests < requests || depth.capsules < capsules;
       ++seed) {
    Random random(seed);
    std::vector<std::byte> input(100 + random.below(4000));
    for (std::byte& byte : input) byte = static_cast<std::byte>(random.next());
    try {
      depth = check_rdma_hosts(input);
    } catch (const std::exception& broken) {
      FAIL() << "seed " << seed << " breaks: " << broken.what();
    }
  }
  // What was never reached was not tested.
  for (const RdmaEvent event :
       {RdmaEvent::kAccepted, RdmaEvent::kEstablished, RdmaEvent::kConnected, RdmaEvent::kConnectRefused,
        RdmaEvent::kRefusedFormat, RdmaEvent::kEndedByHost, RdmaEvent::kEndedProtocol})
    EXPECT_GT(depth.events[static_cast<size_t>(event)], 0u) << nvmf::label(event);
  std::printf("%llu requests, %llu capsules\n", static_cast<unsigned long long>(depth.requests),
              static_cast<unsigned long long>(depth.capsules));
  for (size_t i = 0; i < nvmf::kRdmaEvents; ++i)
    std::printf("  %-45s %llu\n", std::string(nvmf::label(static_cast<RdmaEvent>(i))).c_str(),
                static_cast<unsigned long long>(depth.events[i]));
}

}  // namespace
}  // namespace uroce::fuzz
