#include "engine/device/link_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

/// A port whose wire the test pulls out.
class LoosePort final : public port::Port {
 public:
  struct Wire {
    bool changes = true;
    bool up = true;
    bool gone = false;
    uint32_t mbps = 25'000;
  };
  LoosePort(std::unique_ptr<port::Port> inner, const Wire& wire) : inner_(std::move(inner)), wire_(wire) {}

  [[nodiscard]] const port::Capabilities& capabilities() const override { return inner_->capabilities(); }
  port::PortQueue& queue(uint16_t index) override { return inner_->queue(index); }
  [[nodiscard]] bool link_up() const override { return wire_.up; }
  [[nodiscard]] uint32_t link_mbps() const override { return wire_.mbps; }
  [[nodiscard]] bool link_changes() const override { return wire_.changes; }
  [[nodiscard]] bool gone() const override { return wire_.gone; }

 private:
  const std::unique_ptr<port::Port> inner_;
  const Wire& wire_;
};

struct Told final : DeviceListener {
  std::vector<DeviceEvent> events;
  void raised(DeviceEvent event) override { events.push_back(event); }
  std::vector<DeviceEvent> take() { return std::exchange(events, {}); }
};

struct Links : ::testing::Test {
  Links() {
    for (DeviceState* state : {pair.left_state, pair.right_state}) {
      state->port = std::make_unique<LoosePort>(std::move(state->port), wire);
      watch.add(*state);
    }
    pair.left->add_listener(left);
    pair.left->add_listener(left_too);
    pair.right->add_listener(right);
  }
  ~Links() override { watch.stop(); }

  using Events = std::vector<DeviceEvent>;
  LoosePort::Wire wire;
  VirtualPair pair;
  LinkWatch watch;
  Told left;
  Told left_too;
  Told right;
};

TEST_F(Links, WhoListensHearsOfEachChangeOnce) {
  watch.look();
  EXPECT_EQ(left.take(), Events{});
  wire.up = false;
  watch.look();
  watch.look();
  for (Told* told : {&left, &left_too, &right}) EXPECT_EQ(told->take(), Events{DeviceEvent::kPortError});
  EXPECT_FALSE(pair.left->link_up());
  pair.left->remove_listener(left_too);
  wire.up = true;
  watch.look();
  for (Told* told : {&left, &right}) EXPECT_EQ(told->take(), Events{DeviceEvent::kPortActive});
  EXPECT_EQ(left_too.take(), Events{});
}

TEST_F(Links, PollersKnowTheSpeed) {
  const auto known = [this] {
    uint32_t mbps = 0;
    pair.left_state->pollers[0]->run([&](qp::Turn& turn) { mbps = turn.line_mbps; });
    return mbps;
  };
  EXPECT_EQ(known(), 0u);
  watch.look();
  EXPECT_EQ(known(), 25'000u);
  wire = {.up = false, .mbps = 0};
  watch.look();
  EXPECT_EQ(known(), 25'000u) << "a link that is down has none";
  wire = {.mbps = 10'000};
  watch.look();
  EXPECT_EQ(known(), 10'000u);
}

TEST_F(Links, WhatIsGoneIsFatalOnce) {
  wire.up = false;
  wire.gone = true;
  watch.look();
  EXPECT_EQ(left.take(), (Events{DeviceEvent::kPortError, DeviceEvent::kFatal}));
  watch.look();
  EXPECT_EQ(left.take(), Events{});
}

TEST_F(Links, WhatIsGoneEndsWhatWasPosted) {
  Side side(pair.left, 100);
  Side peer(pair.right, 100);
  Side unused(pair.left, 100);
  ASSERT_EQ(connect_pair(side, peer), 0);
  side.post_receive(100, 7);
  wire.gone = true;
  watch.look();
  pair.settle();
  EXPECT_EQ(pair.left->query_queue_pair(side.queue_pair()).state, qp::State::kErr);
  EXPECT_EQ(pair.left->query_queue_pair(unused.queue_pair()).state, qp::State::kReset);
  const auto completion = side.look();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->wr_id, 7u);
  EXPECT_EQ(completion->status, queue::CompletionStatus::kFlushed);
}

TEST(LinkWatch, WiresThatNeverChangeAreNotLookedAt) {
  VirtualPair constant;
  LinkWatch none;
  none.add(*constant.left_state);
  EXPECT_TRUE(none.start());
  none.look();
}

}  // namespace
}  // namespace uroce::engine
