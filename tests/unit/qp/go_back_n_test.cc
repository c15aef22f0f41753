// recovery.selective = false: nothing is kept that comes early, and all goes again from a gap on.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::NakCode;
using wire::Operation;

using SelectiveRepeat = QueuePairTest;

class GoBackN : public QueuePairTest {
 protected:
  GoBackN() {
    transport.selective_repeat = false;
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
  }
  std::vector<uint32_t> pumped() {
    std::vector<uint32_t> psns;
    for (const Sent& frame : pump()) psns.push_back(frame.psn());
    return psns;
  }
  using Numbers = std::vector<uint32_t>;
};

TEST_F(GoBackN, ARequesterSendsAllAgainThatIsBehindTheGap) {
  for (int i = 0; i < 5; ++i) post(SendOperation::kWrite, 1);
  pump();
  receive_nak(NakCode::kSequenceError, 101);
  EXPECT_EQ(pumped(), (Numbers{101, 102, 103, 104}));
  EXPECT_EQ(counter(Counter::kRetransmittedPackets), 4u);
}

TEST_F(GoBackN, AResponderTakesWhatIsEarlyOnlyWhenItComesAgain) {
  receive_write(Operation::kWriteOnly, 5001, 300, 4, pattern(4, 2));
  EXPECT_FALSE(last_early);
  EXPECT_EQ(counter(Counter::kDropSequence), 1u);
  expect_nak(pump(), NakCode::kSequenceError, 5000);
  receive_write(Operation::kWriteOnly, 5000, 200, 4, pattern(4, 1));
  EXPECT_EQ(memory_at(200, 4), pattern(4, 1));
  EXPECT_NE(memory_at(300, 4), pattern(4, 2));
  receive_write(Operation::kWriteOnly, 5001, 300, 4, pattern(4, 2));
  EXPECT_EQ(memory_at(300, 4), pattern(4, 2));
}

TEST_F(GoBackN, AReadIsAskedForFromTheMissingResponseOn) {
  post(SendOperation::kRead, 4 * kMtu);
  pump();
  const auto respond = [this](Operation operation, uint32_t psn) {
    wire::Headers headers = from_peer(operation, psn);
    headers.aeth = wire::Aeth::ack(0);
    receive(headers, pattern(kMtu));
  };
  respond(Operation::kReadResponseFirst, 100);
  respond(Operation::kReadResponseMiddle, 102);
  EXPECT_FALSE(last_early);
  EXPECT_EQ(counter(Counter::kDropSequence), 1u);
  const auto again = pump();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn(), 101u);
  EXPECT_EQ(again[0].reth().length, 3 * kMtu) << "not the missing packet alone";
}

TEST_F(GoBackN, AnAckBehindMissingResponsesHasAllAskedForAgain) {
  post(SendOperation::kRead, 2 * kMtu);
  post(SendOperation::kWrite, 1);
  pump();
  receive_ack(102);
  EXPECT_EQ(pumped(), (Numbers{100, 102}));
}

TEST_F(SelectiveRepeat, IsWithoutTheKey) {
  bring_up();
  receive_write(Operation::kWriteOnly, 5001, 300, 4, pattern(4, 2));
  EXPECT_TRUE(last_early);
}

}  // namespace
}  // namespace uroce::qp::testing
