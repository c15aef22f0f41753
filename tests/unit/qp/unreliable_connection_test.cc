#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;

/// UC: requests and nothing else. What is lost is lost, and no more than its message.
class UnreliableConnection : public QueuePairTest {
 protected:
  UnreliableConnection() : QueuePairTest(Type::kUc) {}
};

TEST_F(UnreliableConnection, SendsMoreThanAWindowWithoutAnAnswer) {
  bring_up();
  for (uint32_t i = 0; i < 2 * SendWindow::kPackets; ++i) post(SendOperation::kWrite, 1);
  EXPECT_EQ(pump().size(), 2 * SendWindow::kPackets);
  EXPECT_EQ(send_completions().size(), 2 * SendWindow::kPackets);
}

}  // namespace
}  // namespace uroce::qp::testing
