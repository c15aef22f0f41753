#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class Completer : public QueuePairTest {
 protected:
  Completer() { attributes.timeout = 0; }
};

TEST_F(Completer, ALostReadResponseIsAskedForAgainFromTheMiddle) {
  bring_up();
  post(SendOperation::kRead, 4 * kMtu + 3);
  pump();
  receive(Operation::kReadResponseFirst, 100, pattern(kMtu, 0));
  receive(Operation::kReadResponseMiddle, 102, pattern(kMtu, 2));  // 101 is lost
  auto frames = pump();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].psn(), 101u);
  EXPECT_EQ(frames[0].reth().address, kRemote + kMtu);
  EXPECT_EQ(frames[0].reth().length, 3 * kMtu + 3);
  receive(Operation::kReadResponseMiddle, 103, pattern(kMtu, 3));  // still from the first answer
  EXPECT_TRUE(pump().empty());
  receive(Operation::kReadResponseFirst, 101, pattern(kMtu, 1));
  receive(Operation::kReadResponseMiddle, 102, pattern(kMtu, 2));
  receive(Operation::kReadResponseMiddle, 103, pattern(kMtu, 3));
  receive(Operation::kReadResponseLast, 104, pattern(3, 4));
  EXPECT_EQ(send_completions().size(), 1u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(memory_at(i * kMtu, kMtu), pattern(kMtu, i));
  EXPECT_EQ(memory_at(4 * kMtu, 3), pattern(3, 4));
}

TEST_F(Completer, AReadIntoARegionThatWentAwayIsALocalProtectionError) {
  bring_up();
  post(SendOperation::kRead, 8);
  pump();
  const Bytes before = memory_at(0, 8);
  ASSERT_TRUE(regions.deregister(keys.lkey));
  receive(Operation::kReadResponseOnly, 100, pattern(8, 4));
  expect_failed_send(CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(memory_at(0, 8), before);
}

}  // namespace
}  // namespace uroce::qp::testing
