// What tests of a queue pair expect of completions and of what it has sent.
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {

void QueuePairTest::expect_failed_send(queue::CompletionStatus status) {
  const auto failed = send_completions();
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed[0].status, status);
  for (size_t i = 1; i < failed.size(); ++i) EXPECT_EQ(failed[i].status, queue::CompletionStatus::kFlushed);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

void QueuePairTest::expect_completions(
    const std::vector<std::pair<queue::CompletionOpcode, queue::CompletionStatus>>& expected) {
  const std::vector<queue::Completion> done = send_completions();
  ASSERT_EQ(done.size(), expected.size());
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].opcode, expected[i].first) << i;
    EXPECT_EQ(done[i].status, expected[i].second) << i;
  }
}

void QueuePairTest::expect_each_refused(const std::vector<std::function<void()>>& wrong,
                                        queue::CompletionStatus refused) {
  for (size_t i = 0; i < wrong.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up();
    wrong[i]();
    post(queue::SendOperation::kSend, 10);
    EXPECT_TRUE(pump().empty());
    const auto done = send_completions();
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, refused);
    EXPECT_EQ(done[1].status, queue::CompletionStatus::kFlushed);
    EXPECT_EQ(queue_pair->state(), State::kErr);
  }
}

void QueuePairTest::expect_failed_receive(queue::CompletionStatus status) {
  const auto failed = receive_completions();
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed[0].status, status);
  EXPECT_EQ(failed[0].opcode, queue::CompletionOpcode::kReceive);
  EXPECT_EQ(queue_pair->state(), State::kErr);
}

void QueuePairTest::expect_answer(const Sent& frame, wire::AethKind kind, uint8_t value, uint32_t psn) {
  EXPECT_EQ(frame.operation(), wire::Operation::kAcknowledge);
  EXPECT_EQ(frame.aeth().kind, kind);
  EXPECT_EQ(frame.aeth().value, value);
  EXPECT_EQ(frame.psn(), psn);
}

void QueuePairTest::expect_nak(const Sent& frame, wire::NakCode code, uint32_t psn) {
  expect_answer(frame, wire::AethKind::kNak, static_cast<uint8_t>(code), psn);
}

void QueuePairTest::expect_answer(const std::vector<Sent>& frames, wire::AethKind kind, uint8_t value,
                                  uint32_t psn) {
  ASSERT_EQ(frames.size(), 1u);
  expect_answer(frames[0], kind, value, psn);
}

void QueuePairTest::expect_nak(const std::vector<Sent>& frames, wire::NakCode code, uint32_t psn) {
  ASSERT_EQ(frames.size(), 1u);
  expect_nak(frames[0], code, psn);
}

}  // namespace uroce::qp::testing
