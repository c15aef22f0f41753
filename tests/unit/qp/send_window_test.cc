#include "qp/connection/send_window.h"

#include <gtest/gtest.h>

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;

/// A window from PSN 100 on over a queue of requests, each of which goes out as it is posted.
class Window : public ::testing::Test {
 protected:
  Window() { window.reset(Psn(100)); }

  queue::SendRequest& post(SendOperation operation) {
    queue::SendRequest& request = *queue.reserve();
    request.operation = operation;
    queue.publish();
    return request;
  }
  /// Begins a request of so many packets, `sent` of which go.
  void send(SendOperation operation, uint32_t packets, uint32_t sent) {
    window.start(post(operation), packets);
    window.sent(sent);
    if (sent == packets) window.end_current(1);
  }
  void send(SendOperation operation, uint32_t packets = 1) { send(operation, packets, packets); }
  void execute(SendOperation operation) {
    post(operation);
    window.executed();
  }
  void send_again(uint32_t packets) {
    EXPECT_TRUE(window.sent(packets));
    if (window.current_packet(window.current()) == window.current().packets) window.end_current(1);
  }

  queue::SendQueue queue{{.depth = 16, .segments_max = 1}};
  SendWindow window{queue};
};

TEST_F(Window, OfSeveralRequests_ExpectTheNewestOneThatHasSent) {
  send(SendOperation::kSend);
  EXPECT_EQ(window.newest_operation(), SendOperation::kSend);
  send(SendOperation::kWrite, 2);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
  // Posted, and nothing of it sent.
  post(SendOperation::kSend);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
}

TEST_F(Window, OfARequestThatIsPartlySent_ExpectItself) {
  send(SendOperation::kSend);
  send(SendOperation::kWrite, 3, 1);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
}

TEST_F(Window, BehindLocalOperations_ExpectTheRequestBeforeThem) {
  send(SendOperation::kWrite);
  execute(SendOperation::kLocalInvalidate);
  execute(SendOperation::kLocalInvalidate);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
}

TEST_F(Window, AllGoesOnceMore_ExpectTheOldestRequest) {
  send(SendOperation::kWrite, 2);
  send(SendOperation::kSend);
  window.rewind();
  EXPECT_EQ(window.unanswered(), 0u);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
  send_again(1);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
  send_again(1);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
  send_again(1);
  EXPECT_EQ(window.newest_operation(), SendOperation::kSend);
}

/// Behind a request that has retired, from whose place on nothing may be looked for.
TEST_F(Window, AllButAnAnsweredRequestGoesOnceMore_ExpectTheOldestThatIsLeft) {
  send(SendOperation::kWrite);
  send(SendOperation::kSend);
  send(SendOperation::kWrite);
  window.answered_before(Psn(101));
  window.retire_head(1);
  window.settle();
  window.rewind();
  EXPECT_EQ(window.newest_operation(), SendOperation::kSend);
}

TEST_F(Window, AllOfALongRequestGoesOnceMoreFromItsMiddle_ExpectItself) {
  send(SendOperation::kWrite, 4);
  send(SendOperation::kSend);
  window.answered_before(Psn(102));
  window.settle();
  window.rewind();
  EXPECT_EQ(window.unanswered(), 0u);
  EXPECT_EQ(window.newest_operation(), SendOperation::kWrite);
}

}  // namespace
}  // namespace uroce::qp::testing
