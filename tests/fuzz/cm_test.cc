// What the fuzzer asks of any conversation, asked of conversations that are the same in every run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "base/values/random.h"
#include "cm_property.h"

namespace uroce::fuzz {
namespace {

using cm::Incoming;
using cm::State;

/// All conversations came so deep together: what was never reached was not tested.
void expect_depth(const CmDepth& total) {
  for (size_t i = 0; i < CmDepth::kEvents; ++i) EXPECT_GT(total.told[i], 0u) << "event " << i;
  for (size_t i = 0; i < CmDepth::kMessages; ++i) {
    const bool never_ours = i == wire::CmMessage(wire::CmLap{}).index();
    EXPECT_EQ(total.sent[i] == 0, never_ours) << "message " << i;
  }
  for (const State state :
       {State::kReqSent, State::kReqReceived, State::kRepReceived, State::kRepSent, State::kEstablished,
        State::kDreqSent, State::kTimewait, State::kSidrReqSent, State::kClosed}) {
    for (size_t incoming = 1; incoming < cm::kIncomingCount; ++incoming) {
      // A SIDR_REP names no number of the peer's, without which nothing is for a connection that knows it.
      if (static_cast<Incoming>(incoming) == Incoming::kSidrRep && state != State::kSidrReqSent) continue;
      EXPECT_GT(total.met[static_cast<size_t>(state)][incoming], 0u) << int(state) << " met " << incoming;
    }
  }
  EXPECT_GT(total.counters.malformed, 0u);
  EXPECT_GT(total.counters.unknown_connection, 0u);
  EXPECT_GT(total.counters.no_room, 0u);
  EXPECT_GT(total.counters.repeated, 0u);
  EXPECT_GT(total.counters.unexpected, 0u);
  EXPECT_GT(total.counters.foreign, 0u);
}

/// UROCE_CONVERSATIONS=N runs that many.
uint64_t conversations() {
  constexpr uint64_t kConversations = 3'000;
  const char* const text = std::getenv("UROCE_CONVERSATIONS");
  return text == nullptr ? kConversations : std::strtoull(text, nullptr, 0);
}

TEST(Conversations, OfRandomChoices) {
  CmDepth total;
  for (uint64_t seed = 1; seed <= conversations(); ++seed) {
    Random random(seed);
    std::vector<std::byte> input(200 + random.below(3000));
    for (std::byte& byte : input) byte = static_cast<std::byte>(random.next());
    try {
      total += check_conversation(input);
    } catch (const std::logic_error& broken) {
      FAIL() << "seed " << seed << " breaks: " << broken.what();
    }
  }
  expect_depth(total);
}

}  // namespace
}  // namespace uroce::fuzz
