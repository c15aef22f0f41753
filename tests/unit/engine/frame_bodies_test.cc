// A port that leaves the payloads of long frames in memory of their sender: what arrives is right, and
// nothing is read there once the sender may write again.
#include <gtest/gtest.h>

#include "bound_region.h"
#include "drivers/registry.h"
#include "engine/poller/turn_lock.h"
#include "tests/support/body_port.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

using queue::CompletionStatus;

constexpr size_t kBytes = 250'000;

/// Whether frames have an ICRC.
class FrameBodies : public ::testing::TestWithParam<bool> {
 protected:
  FrameBodies() {
    drivers::decorate_ports([this](std::unique_ptr<port::Port> inner) {
      auto port = std::make_unique<testing::BodyPort>(std::move(inner), GetParam());
      ports_.push_back(port.get());
      return std::unique_ptr<port::Port>(std::move(port));
    });
    pair_.emplace();
    drivers::decorate_ports(nullptr);
    // Before there are queue pairs, which ask how many pollers there are.
    pair_->right_state->quiescence.watch(other_poller_);
    ++pair_->right_state->transport.pollers;
    left_.emplace(pair_->left, kBytes);
    right_.emplace(pair_->right, kBytes);
    EXPECT_EQ(connect_pair(*left_, *right_), 0);
    fill(left_->buffer(), 7);
  }
  ~FrameBodies() override {
    left_.reset();
    right_.reset();
  }

  /// Of both devices.
  [[nodiscard]] size_t frames_with_bodies() const {
    size_t sum = 0;
    for (testing::BodyPort* port : ports_) sum += port->queue(0).left();
    return sum;
  }
  void expect_success(Side& side) {
    const auto completion = side.look();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, CompletionStatus::kSuccess);
  }

  std::vector<testing::BodyPort*> ports_;
  std::optional<VirtualPair> pair_;
  TurnLock other_poller_;  // outlives what may still wait for it
  std::optional<Side> left_;
  std::optional<Side> right_;
};

TEST_P(FrameBodies, WritesArePlacedFromThem) {
  left_->post_write(*right_, kBytes);
  pair_->settle();
  expect_success(*left_);
  EXPECT_EQ(left_->buffer(), right_->buffer());
  EXPECT_GT(frames_with_bodies(), kBytes / 4096);
}

TEST_P(FrameBodies, SendsArePlacedFromThem) {
  right_->post_receive(kBytes);
  left_->post_send(kBytes);
  pair_->settle();
  expect_success(*left_);
  expect_success(*right_);
  EXPECT_EQ(left_->buffer(), right_->buffer());
  EXPECT_GT(frames_with_bodies(), kBytes / 4096);
}

TEST_P(FrameBodies, FramesThatWaitAreCopied) {
  BoundRegion region(*right_);
  // What follows an invalidation waits while another poller is inside a turn.
  ASSERT_TRUE(other_poller_.begin());
  post_invalidation(*right_, queue::SendOperation::kLocalInvalidate, region.key());
  pair_->turn_all();
  left_->post_write(*right_, kBytes);
  for (int i = 0; i < 100; ++i) {
    VirtualPair::advance(microseconds(1));
    pair_->turn_all();
  }
  other_poller_.end();
  pair_->settle();
  EXPECT_EQ(left_->buffer(), right_->buffer());
  EXPECT_GT(frames_with_bodies(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Icrc, FrameBodies, ::testing::Bool(),
                         [](const auto& has_icrc) { return has_icrc.param ? "full" : "uplink"; });

}  // namespace
}  // namespace uroce::engine
