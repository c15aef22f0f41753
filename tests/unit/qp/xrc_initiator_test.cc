// XRC, the initiator: it sends as RC does and names a shared receive queue in each request.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class XrcInitiator : public QueuePairTest {
 protected:
  XrcInitiator() : QueuePairTest(Type::kXrcSend) {
    options.receive_completions = nullptr;
    queue_pair = std::make_unique<QueuePairStorage>(options);
    bring_up();
  }

  Psn sends_begin = kOurPsn;  // of the next message
};

TEST_F(XrcInitiator, EveryRequestNamesAQueue) {
  for (const queue::OperationRow& row : queue::kOperations) {
    const SendOperation operation = row.operation;
    if (!row.services.xrc || is_local(operation) || operation == SendOperation::kReadInvalidate) continue;
    SCOPED_TRACE(row.name);
    const bool of_a_word = is_atomic(operation);
    post(operation, of_a_word ? 8 : 3 * kMtu);
    for (int again = 0; again < 2; ++again) {
      const auto frames = pump();
      ASSERT_EQ(frames.size(), of_a_word || is_read(operation) ? 1u : again == 0 ? 3u : 1u);
      for (const Sent& sent : frames) {
        EXPECT_EQ(sent.packet.row->opcode.service(), wire::Service::kXrc);
        ASSERT_TRUE(sent.packet.row->headers.has(wire::Header::kXrcEth));
        EXPECT_EQ(sent.packet.headers.xrc_srq, kPeersReceives.value);
      }
      if (again == 0) expire();
    }
    if (is_read(operation)) {
      for (uint32_t i = 0; i < 3; ++i) {
        wire::Headers headers = from_peer(i == 0   ? Operation::kReadResponseFirst
                                          : i == 1 ? Operation::kReadResponseMiddle
                                                   : Operation::kReadResponseLast,
                                          (sends_begin + i).value());
        headers.aeth = wire::Aeth::ack(0);
        receive(headers, pattern(kMtu, i));
      }
    } else if (of_a_word) {
      wire::Headers headers = from_peer(Operation::kAtomicAcknowledge, sends_begin.value());
      headers.aeth = wire::Aeth::ack(0);
      receive(headers);
    } else {
      receive_ack((sends_begin + 2u).value());
    }
    sends_begin = sends_begin + (of_a_word ? 1u : 3u);
    const auto done = send_completions();
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  }
}

}  // namespace
}  // namespace uroce::qp::testing
