#include "apps/perf/ends/arrivals.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "apps/perf/ends/round.h"
#include "client/failure.h"

// Rounds of services that lose messages: what came is told apart from what did not, and checked.

namespace uroce::perf {
namespace {

TEST(Arrivals, TellWhichMessageLiesWhere) {
  const Layout layout = Layout::of(64, 4);
  Arrivals sends(layout, false);
  Arrivals writes(layout, true);
  for (const uint32_t number : {0u, 2u, 5u}) {  // 1, 3 and 4 are lost
    EXPECT_EQ(sends.note(number), number);
    EXPECT_EQ(writes.note(number), number);
  }
  EXPECT_EQ(sends.next(), 6u);
  EXPECT_EQ(sends.count(), 3u);
  EXPECT_EQ(sends.in_slot(0), 0u);
  EXPECT_EQ(sends.in_slot(1), 2u);
  EXPECT_EQ(sends.in_slot(2), 5u);
  EXPECT_EQ(sends.in_slot(3), std::nullopt);
  EXPECT_EQ(sends.open_slot(), 3u);
  EXPECT_EQ(writes.in_slot(1), 5u);
  EXPECT_EQ(writes.in_slot(2), 2u);
}

TEST(Arrivals, FollowNumbersOverTheirLowBits) {
  Arrivals arrivals(Layout::of(64, 4), false);
  EXPECT_EQ(arrivals.note(0x7FFFFFFF), 0x7FFFFFFFu);
  EXPECT_EQ(arrivals.note(0xFFFFFFFE), 0xFFFFFFFEu);
  EXPECT_EQ(arrivals.note(1), 0x100000001u);
  EXPECT_EQ(arrivals.note(0xFFFFFFFF), 0xFFFFFFFFu) << "late";
  EXPECT_EQ(arrivals.next(), 0x100000002u);
}

TEST(Arrivals, OfAnEarlierPhaseDoNotCount) {
  Arrivals arrivals(Layout::of(64, 4), false);
  arrivals.note(0);
  arrivals.begin(5);
  EXPECT_EQ(arrivals.in_slot(0), std::nullopt);
  arrivals.note(4);
  arrivals.note(5);
  EXPECT_EQ(arrivals.count(), 1u);
  EXPECT_EQ(arrivals.in_slot(1), 4u);
}

/// The end that gets messages, and a hand that brings them.
struct Receiver {
  explicit Receiver(const Round& of_round) : round(of_round) {
    sender.prepare(phase);
    receiver.prepare(phase);
    arrivals.begin(0);
  }
  void bring(uint32_t number) {
    const Layout layout = round.layout();
    const uint32_t slot = round.operation == Operation::kWrite ? number : arrivals.open_slot();
    std::memcpy(&areas[3][layout.offset(slot)], &areas[0][layout.offset(number)], round.size);
    arrivals.note(number);
  }
  uint64_t verify(uint64_t end) { return receiver.verify_arrived(phase, end, arrivals); }

  Round round;
  Phase phase{.seed = 3};
  std::vector<std::vector<std::byte>> areas =
      std::vector<std::vector<std::byte>>(4, std::vector<std::byte>(round.layout().area_bytes()));
  RoundMemory sender{areas[0], areas[1], round, Role::kInitiator};
  RoundMemory receiver{areas[2], areas[3], round, Role::kResponder};
  Arrivals arrivals{round.layout(), round.operation == Operation::kWrite};
};

Round round_of(Service service, Operation operation) {
  return {
      .service = service, .operation = operation, .measure = Measure::kBandwidth, .size = 100, .depth = 4};
}

TEST(LossyRound, AcceptsWhatCameWhereverItLies) {
  for (const Service service : {Service::kUc, Service::kUd}) {
    Receiver sends(round_of(service, Operation::kSend));
    for (const uint32_t number : {0u, 2u, 3u, 5u, 6u}) sends.bring(number);
    EXPECT_EQ(sends.verify(8), 300u) << "of four slots one waits for the next message";
  }
  Receiver writes(round_of(Service::kUc, Operation::kWrite));
  for (const uint32_t number : {0u, 2u, 5u}) writes.bring(number);
  EXPECT_EQ(writes.verify(6), 300u);
}

TEST(LossyRound, SeesWhatIsWrong) {
  Receiver bytes(round_of(Service::kUd, Operation::kSend));
  bytes.bring(1);
  bytes.areas[3][bytes.round.layout().offset(0) + 99] ^= std::byte{1};
  EXPECT_THROW(bytes.verify(2), client::Failure) << "a wrong byte";
  Receiver number(round_of(Service::kUd, Operation::kSend));
  number.bring(1);
  number.arrivals.begin(0);
  number.arrivals.note(2);
  number.arrivals.note(2);
  EXPECT_THROW(number.verify(3), client::Failure) << "another message than it says";
  Receiver silent(round_of(Service::kUc, Operation::kWrite));
  silent.areas[3][silent.round.layout().offset(2)] = std::byte{0};
  EXPECT_NO_THROW(silent.verify(3)) << "part of a message that was lost";
  EXPECT_THROW(silent.verify(2), client::Failure) << "nothing was sent there";
  Receiver behind(round_of(Service::kUd, Operation::kSend));
  behind.bring(0);
  behind.areas[3][behind.round.layout().offset(0) + 100] = std::byte{0};
  EXPECT_THROW(behind.verify(1), client::Failure) << "behind the message's end";
}

}  // namespace
}  // namespace uroce::perf
