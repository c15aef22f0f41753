// What the fuzzer asks of any capsules, asked of capsules that are the same in every run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "base/values/random.h"
#include "nvmf_property.h"

namespace uroce::fuzz {
namespace {

using nvmf::StatusCode;

std::vector<std::byte> random_bytes(Random& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

/// UROCE_CAPSULES=N runs that many inputs.
uint64_t inputs() {
  constexpr uint64_t kInputs = 1'000;
  const char* const text = std::getenv("UROCE_CAPSULES");
  return text == nullptr ? kInputs : std::strtoull(text, nullptr, 0);
}

TEST(Capsules, OfRandomChoices) {
  CapsuleDepth total;
  for (uint64_t seed = 1; seed <= inputs(); ++seed) {
    Random random(seed);
    try {
      const CapsuleDepth depth = check_capsules(random_bytes(random, 200 + random.below(6000)));
      for (const auto& [code, count] : depth.answers) total.answers[code] += count;
      total.fused_pairs += depth.fused_pairs;
      total.deallocations += depth.deallocations;
      total.resets += depth.resets;
      total.silences += depth.silences;
    } catch (const std::logic_error& broken) {
      FAIL() << "seed " << seed << " breaks: " << broken.what();
    }
  }
  // What was never reached was not tested.
  constexpr StatusCode kReached[] = {StatusCode::kSuccess,
                                     StatusCode::kInvalidOpcode,
                                     StatusCode::kInvalidField,
                                     StatusCode::kDataTransferError,
                                     StatusCode::kAbortRequested,
                                     StatusCode::kAbortedQueueDeleted,
                                     StatusCode::kAbortedFailedFused,
                                     StatusCode::kAbortedMissingFused,
                                     StatusCode::kInvalidNamespace,
                                     StatusCode::kCommandSequenceError,
                                     StatusCode::kNamespaceWriteProtected,
                                     StatusCode::kLbaOutOfRange,
                                     StatusCode::kCapacityExceeded,
                                     StatusCode::kNamespaceNotReady,
                                     StatusCode::kInvalidLogPage,
                                     StatusCode::kInvalidProtectionInfo,
                                     StatusCode::kConnectInvalidParameters,
                                     StatusCode::kConnectInvalidHost,
                                     StatusCode::kDisconnectInvalidQueueType,
                                     StatusCode::kWriteFault,
                                     StatusCode::kUnrecoveredReadError,
                                     StatusCode::kCompareFailure,
                                     StatusCode::kAnaInaccessible};
  for (const StatusCode code : kReached)
    EXPECT_GT(total.answers[code], 0u) << std::hex << static_cast<uint32_t>(code);
  EXPECT_GT(total.fused_pairs, 0u);
  EXPECT_GT(total.deallocations, 0u);
  EXPECT_GT(total.resets, 0u);
  EXPECT_GT(total.silences, 0u);
}

}  // namespace
}  // namespace uroce::fuzz
