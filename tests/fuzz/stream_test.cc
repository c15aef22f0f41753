// What the fuzzer asks of any stream, asked of streams that are the same in every run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "base/counters/counter_texts.h"
#include "base/values/random.h"
#include "stream_property.h"

namespace uroce::fuzz {
namespace {

std::vector<std::byte> random_bytes(Random& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

/// All streams came so deep together: what was never reached was not tested.
void expect_depth(const Depth& total) {
  EXPECT_GT(total.sends, 1000u);
  EXPECT_GT(total.receives, 1000u);
  constexpr Counter kReached[] = {Counter::kDropPartitionKey,    Counter::kDropQkey,
                                  Counter::kDropUnknownSrq,      Counter::kDropQpState,
                                  Counter::kDropStaleAck,        Counter::kDropSequence,
                                  Counter::kDropBadAck,          Counter::kDropResources,
                                  Counter::kDropNoReceive,       Counter::kDropTooLong,
                                  Counter::kDropRemoteAccess,    Counter::kDropInvalidRequest,
                                  Counter::kDuplicateRequest,    Counter::kRequestsExecuted,
                                  Counter::kAtomicsExecuted,     Counter::kCreditProbes,
                                  Counter::kSequenceNakSent,     Counter::kInvalidRequestNakSent,
                                  Counter::kAccessNakSent,       Counter::kRnrNakSent,
                                  Counter::kSequenceNakReceived, Counter::kInvalidRequestNakReceived,
                                  Counter::kAccessNakReceived,   Counter::kOperationalNakReceived,
                                  Counter::kRnrNakReceived,      Counter::kImpliedNak,
                                  Counter::kAckTimeout,          Counter::kRetransmittedPackets,
                                  Counter::kRetryExceeded,       Counter::kLocalProtectionError,
                                  Counter::kMemoryGone};
  for (const Counter counter : kReached)
    EXPECT_GT(total.counters[static_cast<size_t>(counter)], 0u) << texts_of(counter).label;
}

/// UROCE_STREAMS=N runs that many.
uint64_t streams() {
  constexpr uint64_t kStreams = 6'000;
  const char* const text = std::getenv("UROCE_STREAMS");
  return text == nullptr ? kStreams : std::strtoull(text, nullptr, 0);
}

TEST(Streams, OfRandomChoices) {
  Depth total;
  for (uint64_t seed = 1; seed <= streams(); ++seed) {
    Random random(seed);
    try {
      const Depth depth = check_stream(random_bytes(random, 200 + random.below(6000)));
      total.sends += depth.sends;
      total.receives += depth.receives;
      for (size_t i = 0; i < kCounterCount; ++i) total.counters[i] += depth.counters[i];
    } catch (const std::logic_error& broken) {
      FAIL() << "seed " << seed << " breaks: " << broken.what();
    }
  }
  expect_depth(total);
}

}  // namespace
}  // namespace uroce::fuzz
