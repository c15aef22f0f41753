#include "engine/scheduling/frame_watch.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <semaphore>
#include <vector>

namespace uroce::engine {
namespace {

/// A watch over two descriptors that stand for ports; a number in one is a frame.
class FrameWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int> descriptors = {ports_[0].get(), ports_[1].get()};
    ASSERT_TRUE(watch_.start({.descriptors = descriptors}, {}, [this] {
      ++reports_;
      reported_.release();
    }));
  }

  void frame(size_t port) const { ASSERT_EQ(eventfd_write(ports_[port].get(), 1), 0); }
  void receive(size_t port) const {
    eventfd_t frames = 0;
    ASSERT_EQ(eventfd_read(ports_[port].get(), &frames), 0);
  }

  const std::array<Descriptor, 2> ports_ = {Descriptor(eventfd(0, EFD_CLOEXEC)),
                                            Descriptor(eventfd(0, EFD_CLOEXEC))};
  std::atomic<int> reports_{0};
  std::counting_semaphore<16> reported_{0};
  FrameWatch watch_;
};

TEST_F(FrameWatchTest, ReportsTheFirstFrameAfterEachArming) {
  for (size_t round = 0; round < 4; ++round) {
    watch_.arm();
    frame(round % 2);
    reported_.acquire();
    receive(round % 2);
  }
  watch_.stop();
  EXPECT_EQ(reports_, 4);
}

TEST_F(FrameWatchTest, ReportsAFrameThatWaitsAlready) {
  frame(1);
  watch_.arm();
  reported_.acquire();
}

TEST_F(FrameWatchTest, IsSilentUntilItIsArmed) {
  frame(0);
  frame(1);
  // It has ended when stop() returns, so a report of these frames would have been counted.
  watch_.stop();
  EXPECT_EQ(reports_, 0);
}

TEST_F(FrameWatchTest, ReportsNoFrameTwice) {
  watch_.arm();
  frame(0);
  reported_.acquire();
  frame(0);
  frame(0);
  watch_.stop();
  EXPECT_EQ(reports_, 1);
}

TEST_F(FrameWatchTest, StopsWhileNothingComesAndOnceMore) {
  watch_.arm();
  watch_.stop();
  EXPECT_FALSE(watch_.started());
  watch_.stop();
}

}  // namespace
}  // namespace uroce::engine
