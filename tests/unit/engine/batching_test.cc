// How many system calls the frames of many queue pairs cost, on links of the kernel.

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "drivers/registry.h"
#include "tests/unit/ports/kernel_links.h"
#include "virtual_pair.h"
#include "wire/address_text.h"

namespace uroce::engine {
namespace {

constexpr size_t kQueuePairs = 96;
constexpr uint32_t kBytes = 64;
// In a turn, before the poller knows that they are for several queue pairs; and then all of the rest.
constexpr uint64_t kReceivedFirst = 32;

struct Way {
  const char* name;
  port::KernelPath path;
  uint64_t frames_per_call;  // that the kernel takes of the 64 of a turn
};

std::ostream& operator<<(std::ostream& to, const Way& way) { return to << way.name; }

class Batching : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!testing::no_kernel_links().empty()) GTEST_SKIP() << testing::no_kernel_links();
    ASSERT_TRUE(testing::make_veth("near", "far", 1500));
    const char* const names[] = {"near", "far"};
    VirtualPair::Options options;
    for (size_t i = 0; i < 2; ++i) {
      const std::string mac = wire::to_text(VirtualPair::mac(i));
      ASSERT_TRUE(testing::ip(std::string("link set ") + names[i] + " address " + mac));
      options.ports.push_back({.kernels_interface = names[i], .kernel_path = GetParam().path});
    }
    // Without an interface a build without AF_XDP says so all the same.
    const auto trial = drivers::open_port({.kernels_interface = "none", .kernel_path = GetParam().path});
    if (trial.error().message.find("this build has no AF_XDP") != std::string::npos)
      GTEST_SKIP() << trial.error().message;
    pair_ = std::make_unique<VirtualPair>(options);
    ASSERT_TRUE(pair_->left != nullptr && pair_->right != nullptr);
    for (size_t i = 0; i < kQueuePairs; ++i) {
      Side& left = left_.emplace_back(pair_->left, kBytes);
      Side& right = right_.emplace_back(pair_->right, kBytes);
      ASSERT_EQ(connect_pair(left, right), 0);
    }
  }

  struct Sent {
    uint64_t frames = 0;
    uint64_t calls = 0;
  };
  [[nodiscard]] static Sent sent(const Device& device) {
    return {.frames = device.counter(Counter::kTxFrames), .calls = device.port_counts().transmit_calls};
  }

  /// One of each queue pair.
  static void expect_frames(const Device& device, const Sent& before, uint64_t calls) {
    const Sent now = sent(device);
    EXPECT_EQ(now.frames - before.frames, kQueuePairs);
    EXPECT_EQ(now.calls - before.calls, calls);
  }
  static constexpr uint64_t calls_for(uint64_t frames, uint64_t frames_per_call) {
    return (frames + frames_per_call - 1) / frames_per_call;
  }

  std::unique_ptr<VirtualPair> pair_;
  std::deque<Side> left_;
  std::deque<Side> right_;
};

/// No frame is alone in a system call while others wait, whichever queue pairs they are of.
TEST_P(Batching, FramesOfAllQueuePairsShareSystemCalls) {
  const uint64_t frames_per_call = GetParam().frames_per_call;
  for (size_t i = 0; i < kQueuePairs; ++i) left_[i].post_write(right_[i], kBytes);
  const Sent requests = sent(*pair_->left);
  const Sent answers = sent(*pair_->right);
  // The near end sends all before the far end has a turn, and the far end answers all before the near one
  // does.
  while (pair_->turn(*pair_->left_state)) {
  }
  expect_frames(*pair_->left, requests, calls_for(kQueuePairs, frames_per_call));
  while (pair_->turn(*pair_->right_state)) {
  }
  expect_frames(
      *pair_->right, answers,
      calls_for(kReceivedFirst, frames_per_call) + calls_for(kQueuePairs - kReceivedFirst, frames_per_call));
  pair_->settle();
  for (Side& side : left_) {
    const auto completion = side.look();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
  }
}

/// Of a program that replies at once.
TEST_P(Batching, AReplyAndTheAckOfWhatItRepliesToShareASystemCall) {
  Side& left = left_.front();
  Side& right = right_.front();
  Poller& far = *pair_->right_state->pollers.front();
  Sent before;
  Sent after;
  for (int i = 0; i < 100; ++i) {
    left.post_write(right, kBytes);
    while (pair_->turn(*pair_->left_state)) {
    }
    far.application_turn(VirtualPair::now(), nullptr);
    right.post_write(left, kBytes);
    before = sent(*pair_->right);
    far.application_turn(VirtualPair::now(), nullptr);
    after = sent(*pair_->right);
    pair_->settle();
    ASSERT_TRUE(left.look());
    ASSERT_TRUE(right.look());
  }
  EXPECT_EQ(after.frames - before.frames, 2u);
  EXPECT_EQ(after.calls - before.calls, 1u);
}

INSTANTIATE_TEST_SUITE_P(Ways, Batching,
                         ::testing::Values(Way{"packet", port::KernelPath::kPacket, 64},
                                           Way{"xdp", port::KernelPath::kXdp, 32}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace uroce::engine

int main(int argc, char** argv) {
  uroce::testing::enter_namespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
