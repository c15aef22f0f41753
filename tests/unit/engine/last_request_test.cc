// What has arrived for a queue pair before its end is answered, as a NIC has done by then.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

using queue::CompletionStatus;

constexpr size_t kBytes = 64 << 10;

enum class End : uint8_t { kDestroyed, kError, kReset, kDeviceClosed };

struct Case {
  const char* name;
  End end;
  uint16_t pollers;
  bool send;  // or WRITE
};

class LastRequest : public ::testing::TestWithParam<Case> {
 protected:
  static void end(VirtualPair& pair, Side& side) {
    qp::Attributes attributes;
    switch (GetParam().end) {
      case End::kDestroyed:
        return side.disconnect();
      case End::kError:
      case End::kReset:
        attributes.state = GetParam().end == End::kError ? qp::State::kErr : qp::State::kReset;
        ASSERT_EQ(side.device().modify_queue_pair(side.queue_pair(), attributes, qp::kMaskState), 0);
        return;
      case End::kDeviceClosed:
        for (const auto& poller : pair.right_state->pollers) ASSERT_TRUE(poller->close(milliseconds(1)));
        return;
    }
  }
};

TEST_P(LastRequest, IsAnswered) {
  VirtualPair pair({.pollers = GetParam().pollers});
  // With several pollers some of the queue pairs are not where their packets come to.
  for (int i = 0; i < (GetParam().pollers > 1 ? 8 : 1); ++i) {
    auto left = std::make_unique<Side>(pair.left, kBytes);
    auto right = std::make_unique<Side>(pair.right, kBytes);
    ASSERT_EQ(left->connect(*right), 0);
    ASSERT_EQ(right->connect(*left), 0);
    fill(left->buffer(), 1);
    right->post_receive(kBytes);
    GetParam().send ? left->post_send(kBytes) : left->post_write(*right, kBytes);
    // All of the request is in the far end's port, whose pollers have no turn.
    while (pair.turn(*pair.left_state)) VirtualPair::advance(microseconds(1));
    EXPECT_FALSE(left->look());
    end(pair, *right);
    EXPECT_EQ(left->buffer(), right->buffer());
    while (pair.turn(*pair.left_state)) VirtualPair::advance(microseconds(1));
    const auto done = left->look();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, CompletionStatus::kSuccess);
    EXPECT_EQ(pair.counter(*pair.left_state, Counter::kRetransmittedPackets), 0u);
    EXPECT_EQ(pair.counter(*pair.right_state, Counter::kDropUnknownQp), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, LastRequest,
                         testing::Values(Case{"SendThenDestroyed", End::kDestroyed, 1, true},
                                         Case{"WriteThenDestroyed", End::kDestroyed, 1, false},
                                         Case{"SendThenError", End::kError, 1, true},
                                         Case{"WriteThenReset", End::kReset, 1, false},
                                         Case{"SendThenDeviceClosed", End::kDeviceClosed, 1, true},
                                         Case{"SendThenDestroyedOfTwoPollers", End::kDestroyed, 2, true},
                                         Case{"WriteThenErrorOfTwoPollers", End::kError, 2, false}),
                         [](const auto& case_) { return std::string(case_.param.name); });

}  // namespace
}  // namespace uroce::engine
