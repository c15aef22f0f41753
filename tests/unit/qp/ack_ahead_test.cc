// An ACK that comes before the responses that it is behind counts when these have come: the peer may not say
// it once more.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::Operation;

class AckAhead : public QueuePairTest {
 protected:
  using Numbers = std::vector<uint32_t>;

  AckAhead() {
    attributes.timeout = 0;
    bring_up();
  }
  std::vector<uint32_t> pumped() {
    std::vector<uint32_t> psns;
    for (const Sent& frame : pump()) psns.push_back(frame.psn());
    return psns;
  }
  /// READs of one packet, 100 and 102, and behind each a WRITE, 101 and 103.
  void pump_reads_and_writes() {
    for (int i = 0; i < 2; ++i) {
      post(SendOperation::kRead, kMtu);
      post(SendOperation::kWrite, 1);
    }
    EXPECT_EQ(pumped(), (Numbers{100, 101, 102, 103}));
  }
  /// The answer to a READ of one packet, or one packet of a longer one.
  void respond(uint32_t psn, Operation operation = Operation::kReadResponseOnly) {
    wire::Headers headers = from_peer(operation, psn);
    headers.aeth = wire::Aeth::ack(0);
    receive(headers, pattern(kMtu));
  }
};

TEST_F(AckAhead, CompletesWhatItAcknowledgesWhenTheReadIsAnswered) {
  post(SendOperation::kRead, kMtu);       // PSN 100
  post(SendOperation::kWrite, 2 * kMtu);  // 101, 102
  post(SendOperation::kSend, 1);          // 103
  EXPECT_EQ(pumped(), (Numbers{100, 101, 102, 103}));
  receive_ack(102);
  EXPECT_EQ(send_completions().size(), 0u);
  respond(100);
  EXPECT_EQ(send_completions().size(), 2u);
  EXPECT_EQ(pumped(), Numbers()) << "the response came before the READ was asked for again";
  receive_ack(103);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(AckAhead, CompletesWhatItAcknowledgesWhenTheAtomicIsAnswered) {
  post(SendOperation::kFetchAdd, queue::kAtomicBytes);  // 100
  post(SendOperation::kWrite, 1);                       // 101
  EXPECT_EQ(pumped(), (Numbers{100, 101}));
  receive_ack(101);
  EXPECT_EQ(send_completions().size(), 0u);
  wire::Headers headers = from_peer(Operation::kAtomicAcknowledge, 100);
  headers.aeth = wire::Aeth::ack(0);
  receive(headers);
  EXPECT_EQ(send_completions().size(), 2u);
}

TEST_F(AckAhead, ReachesTheNextReadWhichIsAskedForAgain) {
  pump_reads_and_writes();
  receive_ack(103);
  EXPECT_EQ(pumped(), Numbers{100});
  respond(100);
  EXPECT_EQ(send_completions().size(), 2u);
  EXPECT_EQ(pumped(), Numbers{102});
  respond(102);
  EXPECT_EQ(send_completions().size(), 2u);
  EXPECT_EQ(pumped(), Numbers());
  EXPECT_EQ(counter(Counter::kImpliedNak), 2u);
}

TEST_F(AckAhead, TheNewestOfSeveralCounts) {
  post(SendOperation::kRead, kMtu);                            // 100
  for (int i = 0; i < 3; ++i) post(SendOperation::kWrite, 1);  // 101 to 103
  EXPECT_EQ(pumped().size(), 4u);
  receive_ack(101);
  receive_ack(103);
  receive_ack(102);
  respond(100);
  EXPECT_EQ(send_completions().size(), 4u);
}

TEST_F(AckAhead, CountsOnce) {
  pump_reads_and_writes();
  receive_ack(101);
  respond(100);
  EXPECT_EQ(send_completions().size(), 2u);
  respond(102);
  EXPECT_EQ(send_completions().size(), 1u);
  respond(102);
  EXPECT_EQ(counter(Counter::kDropStaleAck), 1u) << "the window does not go back to the old ACK";
  receive_ack(103);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(AckAhead, OfAPartOfAReadIsOverWhenTheReadIsComplete) {
  post(SendOperation::kRead, 2 * kMtu);  // 100, 101
  post(SendOperation::kWrite, 1);        // 102
  EXPECT_EQ(pumped(), (Numbers{100, 102}));
  receive_ack(100);
  respond(100, Operation::kReadResponseFirst);
  respond(101, Operation::kReadResponseLast);
  EXPECT_EQ(send_completions().size(), 1u);
  respond(101, Operation::kReadResponseLast);
  EXPECT_EQ(counter(Counter::kDropStaleAck), 1u) << "the window does not go back to the old ACK";
  receive_ack(102);
  EXPECT_EQ(send_completions().size(), 1u);
}

TEST_F(AckAhead, IsForgottenByAReset) {
  post(SendOperation::kRead, kMtu);
  post(SendOperation::kWrite, 1);
  EXPECT_EQ(pumped(), (Numbers{100, 101}));
  receive_ack(101);
  Attributes change;
  change.state = State::kReset;
  ASSERT_EQ(queue_pair->modify(change, kMaskState, turn), 0);
  bring_up();
  post(SendOperation::kRead, kMtu);
  post(SendOperation::kWrite, 1);
  EXPECT_EQ(pumped(), (Numbers{100, 101}));
  respond(100);
  EXPECT_EQ(send_completions().size(), 1u);
}

}  // namespace
}  // namespace uroce::qp::testing
