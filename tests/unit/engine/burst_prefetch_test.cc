// Bursts whose packets are for many queue pairs: what is prefetched for them changes nothing of what is
// received.
#include "engine/poller/burst_prefetch.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "engine/poller/poller.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

constexpr size_t kPairs = 50;  // more than a burst has frames

class ManyQueuePairs : public testing::Test {
 protected:
  struct Connected {
    explicit Connected(VirtualPair& pair) : left(pair.left, 64), right(pair.right, 64) {
      EXPECT_EQ(connect_pair(left, right), 0);
    }
    Side left;
    Side right;
  };

  ManyQueuePairs() {
    for (size_t i = 0; i < kPairs; ++i) connected.emplace_back(pair);
  }

  /// Each left end writes to its peer, so that the packets of all come at once.
  void write_all(uint64_t seed) {
    for (Connected& one : connected) {
      fill(one.left.buffer(), ++seed);
      one.left.post_write(one.right, 64);
    }
    pair.settle();
  }

  VirtualPair pair;
  std::deque<Connected> connected;
};

TEST_F(ManyQueuePairs, BurstsForAllOfThem_ExpectWhatWasSent) {
  for (const uint64_t seed : {uint64_t{100}, uint64_t{200}, uint64_t{300}}) {
    write_all(seed);
    for (Connected& one : connected) {
      const auto completion = one.left.look();
      ASSERT_TRUE(completion);
      EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
      EXPECT_EQ(one.left.buffer(), one.right.buffer());
    }
  }
}

TEST_F(ManyQueuePairs, PacketsForSomeThatAreGone_ExpectTheOthersServed) {
  write_all(100);
  for (Connected& one : connected) ASSERT_TRUE(one.left.look());
  // Their packets are dropped one by one between those of the others.
  for (size_t i = 0; i < kPairs; i += 3) connected[i].right.disconnect();
  write_all(200);
  for (size_t i = 0; i < kPairs; ++i) {
    if (i % 3 == 0) {
      EXPECT_FALSE(connected[i].left.look());
      EXPECT_NE(connected[i].left.buffer(), connected[i].right.buffer());
    } else {
      ASSERT_TRUE(connected[i].left.look());
      EXPECT_EQ(connected[i].left.buffer(), connected[i].right.buffer());
    }
  }
}

TEST_F(ManyQueuePairs, FramesOfAnyBytes_ExpectThemToBeNoPointers) {
  Random random(1);
  std::deque<std::unique_ptr<std::byte[]>> memory;
  std::vector<port::RxFrame> frames;
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = static_cast<uint32_t>(random.below(96));
    std::byte* const data = memory.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
    for (uint32_t at = 0; at < bytes; ++at) data[at] = static_cast<std::byte>(random.below(256));
    frames.push_back({.data = data, .length = bytes});
  }
  prefetch_queue_pairs(frames, pair.right_state->context.queue_pairs);
  write_all(100);
  for (Connected& one : connected) EXPECT_TRUE(one.left.look());
}

}  // namespace
}  // namespace uroce::engine
