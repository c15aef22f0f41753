// End-to-end credits.
#include "qp/acknowledgement/credits.h"

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;
using wire::Operation;

TEST(CreditCodes, RoundDown) {
  EXPECT_EQ(credit_code(0), 0);
  EXPECT_EQ(credit_code(4), 4);
  EXPECT_EQ(credit_code(5), 4);
  EXPECT_EQ(credit_code(6), 5);
  EXPECT_EQ(credit_code(32768), 30);
  EXPECT_EQ(credit_code(UINT32_MAX), 30);
  for (uint32_t receives = 0; receives < 40000; ++receives) {
    const uint8_t code = credit_code(receives);
    ASSERT_LE(kCreditsOfCode[code], receives);
    if (code < 30) {
      ASSERT_GT(kCreditsOfCode[code + 1u], receives);
    }
  }
}

class Credits : public QueuePairTest {
 protected:
  Credits() {
    attributes.timeout = 0;
    transport.credits = true;
    queue_pair = std::make_unique<QueuePairStorage>(options);
  }
  void receive_credits(uint32_t psn, uint32_t msn, uint8_t code) {
    wire::Headers headers = from_peer(Operation::kAcknowledge, psn);
    headers.aeth = wire::Aeth::ack(msn, code);
    receive(headers);
  }
};

// --- ours

TEST_F(Credits, AReceiveInUseIsStillPromisedToItsMessage) {
  bring_up(State::kRtr);
  for (int i = 0; i < 2; ++i) post_receive(1000);
  receive(Operation::kSendFirst, 5000, pattern(kMtu), true);
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].aeth().msn, 0u);
  EXPECT_EQ(frames[0].aeth().value, 2u);
}

// --- the peer's

TEST_F(Credits, WhatWasPromisedStays) {
  bring_up();
  for (int i = 0; i < 2; ++i) post(SendOperation::kSend, 1);
  pump();
  receive_credits(100, 1, 4);
  receive_credits(101, 2, 0);  // an answer that is older than it looks
  for (int i = 0; i < 4; ++i) post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 3u);
}

TEST_F(Credits, WithoutOneASingleMessageGoesToAsk) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_credits(100, 1, 0);
  post(SendOperation::kSend, 2 * kMtu);
  post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 2u) << "all of the message";
  EXPECT_EQ(counter(Counter::kCreditProbes), 1u);
  receive_rnr(1, 101);
  advance(seconds(1));
  EXPECT_EQ(pump().size(), 1u);
  receive_credits(101, 1, 1);
  EXPECT_EQ(pump().size(), 1u);
  receive_credits(102, 2, 4);
  EXPECT_EQ(pump().size(), 1u);
}

TEST_F(Credits, WhatIsSentAgainKeepsItsPlace) {
  attributes.timeout = 10;
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_credits(100, 1, 2);
  for (int i = 0; i < 3; ++i) post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 2u);
  receive_nak(wire::NakCode::kSequenceError, 101);
  auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 101u);
  receive_credits(101, 2, 2);
  frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].psn(), 102u);
  EXPECT_EQ(frames[1].psn(), 103u);
  EXPECT_EQ(counter(Counter::kCreditProbes), 0u);
}

/// A long READ is several to the peer, which counts them all.
TEST_F(Credits, AReadCountsAsOftenAsItIsAskedFor) {
  attributes.path_mtu = PathMtu::k256;
  bring_up();
  post(SendOperation::kRead, 3 * SendWindow::kReadPackets * kMtu);
  post(SendOperation::kSend, 1);
  pump();
  for (uint32_t i = 0; i < 3 * SendWindow::kReadPackets; ++i) {
    wire::Headers headers =
        from_peer(i % SendWindow::kReadPackets == 0         ? Operation::kReadResponseFirst
                  : (i + 1) % SendWindow::kReadPackets == 0 ? Operation::kReadResponseLast
                                                            : Operation::kReadResponseMiddle,
                  100 + i);
    headers.aeth = wire::Aeth::ack(3);
    receive(headers, pattern(kMtu));
    pump();
  }
  receive_credits(100 + 3 * SendWindow::kReadPackets, 4, 1);
  for (int i = 0; i < 3; ++i) post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 1u);
}

TEST_F(Credits, AWrappedMessageNumber) {
  bring_up();
  post(SendOperation::kSend, 1);
  pump();
  receive_credits(100, 0xFFFFFF, 4);  // up to message 3
  for (int i = 0; i < 5; ++i) post(SendOperation::kSend, 1);
  EXPECT_EQ(pump().size(), 2u);
}

}  // namespace
}  // namespace uroce::qp::testing
