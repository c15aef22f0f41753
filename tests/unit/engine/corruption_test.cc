// A byte that changes on the way: on the wire, and on the way from a port to itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "drivers/registry.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

/// Which frame to damage, where; shared by all queues of decorated ports.
struct Damage {
  uint32_t frame_bytes_min = 0;  // the first frame at least this long is hit
  uint32_t offset_from_end = 0;
  int hits = 0;

  void apply(std::byte* data, uint32_t length) {
    if (hits > 0 || frame_bytes_min == 0 || length < frame_bytes_min) return;
    data[length - offset_from_end] ^= std::byte{0x10};
    ++hits;
  }
};

class DamagingQueue final : public port::PortQueue {
 public:
  DamagingQueue(port::PortQueue& queue, Damage& damage) : queue_(queue), damage_(damage) {}
  uint16_t receive(std::span<port::RxFrame> frames) override { return queue_.receive(frames); }
  void release(std::span<const port::RxFrame> frames) override { queue_.release(frames); }
  uint16_t allocate(std::span<port::TxFrame> frames) override { return queue_.allocate(frames); }
  uint16_t transmit(std::span<const port::TxFrame> frames) override {
    for (const port::TxFrame& frame : frames) damage_.apply(frame.data, frame.length);
    return queue_.transmit(frames);
  }
  void free(std::span<const port::TxFrame> frames) override { queue_.free(frames); }
  port::RxFrame loop(const port::TxFrame& frame) override {
    damage_.apply(frame.data, frame.length);
    return queue_.loop(frame);
  }

 private:
  port::PortQueue& queue_;
  Damage& damage_;
};

class DamagingPort final : public port::Port {
 public:
  DamagingPort(std::unique_ptr<port::Port> port, Damage& damage)
      : port_(std::move(port)), queue_(port_->queue(0), damage) {}
  [[nodiscard]] const port::Capabilities& capabilities() const override { return port_->capabilities(); }
  port::PortQueue& queue(uint16_t) override { return queue_; }
  [[nodiscard]] bool link_up() const override { return port_->link_up(); }
  [[nodiscard]] port::FarEnd far_end() const override { return port_->far_end(); }

 private:
  std::unique_ptr<port::Port> port_;
  DamagingQueue queue_;
};

/// Where in the frame, counted from its end.
class Corruption : public testing::TestWithParam<uint32_t> {
 protected:
  Corruption() {
    drivers::decorate_ports([this](std::unique_ptr<port::Port> port) {
      return std::unique_ptr<port::Port>(std::make_unique<DamagingPort>(std::move(port), damage_));
    });
    pair_.emplace();
    drivers::decorate_ports(nullptr);
  }

  void expect_dropped_and_repeated(Side& from, Side& to, DeviceState& receiver) {
    ASSERT_EQ(connect_pair(from, to), 0);
    fill(from.buffer(), 5);
    const std::vector<std::byte> untouched = to.buffer();
    damage_ = {.frame_bytes_min = 1000, .offset_from_end = GetParam()};

    // One packet: nothing of it is placed.
    from.post_write(to, 1000);
    for (int i = 0; i < 3; ++i) pair_->turn_all();
    EXPECT_EQ(damage_.hits, 1);
    EXPECT_EQ(pair_->counter(receiver, Counter::kDropIcrc), 1u);
    EXPECT_EQ(to.buffer(), untouched);
    EXPECT_FALSE(from.look());

    // The sender repeats it in the end.
    std::optional<queue::Completion> completion;
    for (int i = 0; i < 10'000 && !completion; ++i) {
      VirtualPair::advance(milliseconds(1));
      pair_->turn_all();
      completion = from.look();
    }
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
    EXPECT_TRUE(std::equal(from.buffer().begin(), from.buffer().begin() + 1000, to.buffer().begin()));
    EXPECT_EQ(pair_->counter(receiver, Counter::kDropIcrc), 1u);
  }

  Damage damage_;
  std::optional<VirtualPair> pair_;
};

TEST_P(Corruption, OnTheWireIsDroppedCountedAndRepeated) {
  Side left(pair_->left, 1000);
  Side right(pair_->right, 1000);
  expect_dropped_and_repeated(left, right, *pair_->right_state);
}

TEST_P(Corruption, OnTheWayToOneselfToo) {
  Side one(pair_->left, 1000);
  Side other(pair_->left, 1000);
  expect_dropped_and_repeated(one, other, *pair_->left_state);
}

// The ICRC itself, the last and the first byte of the payload, the R_Key.
INSTANTIATE_TEST_SUITE_P(Places, Corruption, testing::Values(1u, 5u, 1004u, 1009u));

}  // namespace
}  // namespace uroce::engine
