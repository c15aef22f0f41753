#include "apps/perf/ends/round.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "client/failure.h"

namespace uroce::perf {
namespace {

/// Two ends and a hand that plays the device between them.
struct Ends {
  explicit Ends(const Round& of_round)
      : round(of_round),
        areas(4, std::vector<std::byte>(of_round.layout().area_bytes())),
        initiator(areas[0], areas[1], of_round, Role::kInitiator),
        responder(areas[2], areas[3], of_round, Role::kResponder) {}

  void begin(const Phase& phase) {
    initiator.prepare(phase);
    responder.prepare(phase);
  }
  /// What a WRITE or SEND of the initiator does, or with `back` one of the responder.
  void carry(uint64_t message, bool back = false) {
    const uint64_t offset = round.layout().offset(message);
    std::memcpy(areas[back ? 1 : 3].data() + offset, areas[back ? 2 : 0].data() + offset, round.size);
  }
  void carry_read(uint64_t message) { carry(message, true); }

  Round round;
  std::vector<std::vector<std::byte>> areas;  // sources and targets of initiator and responder
  RoundMemory initiator;
  RoundMemory responder;
};

const Round kWrites{.operation = Operation::kWrite, .measure = Measure::kBandwidth, .size = 100, .depth = 8};

TEST(RoundMemory, AcceptsWhatWasSentAndCountsIt) {
  Ends ends(kWrites);
  const Phase phase{.seed = 5};
  ends.begin(phase);
  for (uint64_t message = 0; message < 3; ++message) ends.carry(message);
  EXPECT_EQ(ends.responder.verify(phase, 3), 300u);
  EXPECT_EQ(ends.initiator.verify(phase, 3), 0u);
}

TEST(RoundMemory, FollowsTheNumbersThroughThePhases) {
  Ends ends(kWrites);
  ends.begin({.seed = 1});
  for (uint64_t message = 0; message < 7; ++message) ends.carry(message);
  const Phase second{.seed = 2, .first = 7};
  ends.begin(second);
  for (uint64_t message = 7; message < 10; ++message) ends.carry(message);
  EXPECT_EQ(ends.responder.verify(second, 10), 300u);
}

TEST(RoundMemory, SeesOneWrongByteAnywhere) {
  for (const size_t wrong : {0u, 50u, 99u}) {
    Ends ends(kWrites);
    const Phase phase{.seed = 5};
    ends.begin(phase);
    for (uint64_t message = 0; message < 8; ++message) ends.carry(message);
    ends.areas[3][ends.round.layout().offset(4) + wrong] ^= std::byte{0x10};
    EXPECT_THROW(ends.responder.verify(phase, 8), client::Failure) << wrong;
  }
}

/// Large areas are filled and verified by several threads.
TEST(RoundMemory, SeesOneWrongByteInALargeArea) {
  constexpr uint32_t kSlots = 16;
  const Round large{
      .operation = Operation::kWrite, .measure = Measure::kBandwidth, .size = 1 << 20, .depth = kSlots};
  Ends ends(large);
  const Phase phase{.seed = 5};
  ends.begin(phase);
  for (uint64_t message = 0; message < kSlots; ++message) ends.carry(message);
  EXPECT_EQ(ends.responder.verify(phase, kSlots), uint64_t{kSlots} << 20);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    std::byte& wrong = ends.areas[3][large.layout().offset(slot) + 4711];
    wrong ^= std::byte{1};
    EXPECT_THROW(ends.responder.verify(phase, kSlots), client::Failure) << slot;
    wrong ^= std::byte{1};
  }
}

TEST(RoundMemory, SeesAMissingMessage) {
  Ends ends(kWrites);
  const Phase phase{.seed = 5};
  ends.begin(phase);
  ends.carry(0);
  EXPECT_THROW(ends.responder.verify(phase, 2), client::Failure);
}

TEST(RoundMemory, SeesLastPhasesDataInThisPhase) {
  Ends ends(kWrites);
  ends.begin({.seed = 1});
  ends.carry(0);
  const std::vector<std::byte> stale = ends.areas[3];
  const Phase second{.seed = 2, .first = 8};
  ends.begin(second);
  ends.areas[3] = stale;
  EXPECT_THROW(ends.responder.verify(second, 9), client::Failure);
}

TEST(RoundMemory, SeesBytesBehindTheEndAndInUnusedSlots) {
  const Phase phase{.seed = 5};
  for (const uint64_t stray : {kWrites.layout().offset(0) + kWrites.size, kWrites.layout().offset(3),
                               kWrites.layout().area_bytes() - 1}) {
    Ends ends(kWrites);
    ends.begin(phase);
    ends.carry(0);
    ends.areas[3][stray] = std::byte{0};
    EXPECT_THROW(ends.responder.verify(phase, 1), client::Failure) << stray;
  }
}

TEST(RoundMemory, ReadsFillTheInitiator) {
  Ends ends({.operation = Operation::kRead, .measure = Measure::kLatency, .size = 64, .depth = 1});
  const Phase phase{.seed = 9};
  ends.begin(phase);
  EXPECT_THROW(ends.initiator.verify(phase, 1), client::Failure);
  ends.carry_read(0);
  EXPECT_EQ(ends.initiator.verify(phase, 1), 64u);
  EXPECT_EQ(ends.responder.verify(phase, 1), 0u);
}

TEST(RoundMemory, PingPongOfWritesTellsMessagesApartByTheirLastByte) {
  for (const uint64_t size : {1u, 64u}) {
    Ends ends({.operation = Operation::kWrite, .measure = Measure::kLatency, .size = size, .depth = 1});
    const Phase phase{.seed = 3};
    ends.begin(phase);
    // More than 256 messages: the mark wraps.
    for (uint64_t message = 0; message < 600; ++message) {
      ASSERT_FALSE(ends.responder.arrived(message));
      ends.initiator.mark_source(message);
      ends.carry(message);
      ASSERT_TRUE(ends.responder.arrived(message));
      ends.responder.mark_source(message);
      ASSERT_FALSE(ends.initiator.arrived(message));
      ends.carry(message, true);
      ASSERT_TRUE(ends.initiator.arrived(message));
    }
    EXPECT_EQ(ends.responder.verify(phase, 600), size);
    EXPECT_EQ(ends.initiator.verify(phase, 600), size);
    EXPECT_THROW(ends.responder.verify(phase, 601), client::Failure);
  }
}

/// What a FETCH & ADD does, or a COMPARE & SWAP that finds what it expects.
void carry_atomic(Ends& ends, uint64_t message) {
  const Layout layout = ends.round.layout();
  const size_t offset = layout.offset(message);
  uint64_t word = 0;
  std::memcpy(&word, &ends.areas[2][offset], sizeof(word));
  EXPECT_EQ(word, message);
  std::memcpy(&ends.areas[1][offset], &word, sizeof(word));
  word += layout.slots;
  std::memcpy(&ends.areas[2][offset], &word, sizeof(word));
}

TEST(RoundMemory, AtomicsCountMessages) {
  for (const Operation operation : {Operation::kFetchAdd, Operation::kCompareSwap}) {
    Ends ends({.operation = operation, .measure = Measure::kBandwidth, .size = kAtomicBytes, .depth = 4});
    const Phase phase{.seed = 1, .first = 6};
    ends.begin(phase);
    for (uint64_t message = 6; message < 9; ++message) carry_atomic(ends, message);
    EXPECT_EQ(ends.initiator.verify(phase, 9), 24u) << "one slot is not used";
    EXPECT_EQ(ends.responder.verify(phase, 9), 24u);
    for (uint64_t message = 9; message < 20; ++message) carry_atomic(ends, message);
    EXPECT_EQ(ends.initiator.verify(phase, 20), 32u);
    EXPECT_EQ(ends.responder.verify(phase, 20), 32u);
    EXPECT_THROW(ends.responder.verify(phase, 21), client::Failure) << "one was lost";
    EXPECT_THROW(ends.responder.verify(phase, 19), client::Failure) << "one was executed twice";
    ends.areas[1][0] ^= std::byte{1};
    EXPECT_THROW(ends.initiator.verify(phase, 20), client::Failure);
  }
}

}  // namespace
}  // namespace uroce::perf
