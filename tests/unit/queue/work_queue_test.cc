#include "queue/work_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace uroce::queue {
namespace {

TEST(WorkQueue, HoldsExactlyItsDepth) {
  SendQueue queue({.depth = 3});
  for (int i = 0; i < 3; ++i) EXPECT_NE(queue.reserve(), nullptr);
  EXPECT_EQ(queue.reserve(), nullptr);
  queue.publish();
  EXPECT_EQ(queue.outstanding(), 3u);

  queue.retire();
  EXPECT_NE(queue.reserve(), nullptr);
  EXPECT_EQ(queue.reserve(), nullptr);
}

TEST(WorkQueue, NothingIsSeenBeforeItIsPublished) {
  SendQueue queue({.depth = 4});
  queue.reserve()->wr_id = 7;
  EXPECT_EQ(queue.published(), 0u);
  queue.publish();
  ASSERT_EQ(queue.published(), 1u);
  EXPECT_EQ(queue.at(0).wr_id, 7u);
}

TEST(WorkQueue, CancelForgetsOnlyWhatWasNotPublished) {
  SendQueue queue({.depth = 4});
  queue.reserve()->wr_id = 1;
  queue.publish();
  queue.reserve()->wr_id = 2;
  queue.cancel();
  queue.reserve()->wr_id = 3;
  queue.publish();
  ASSERT_EQ(queue.published(), 2u);
  EXPECT_EQ(queue.at(1).wr_id, 3u);
}

TEST(WorkQueue, SegmentsAndInlineBytesLieBehindTheirRequest) {
  SendQueue queue({.depth = 2, .segments_max = 3, .inline_max = 100});
  SendRequest& first = *queue.reserve();
  first.segments = 3;
  for (uint32_t i = 0; i < 3; ++i)
    queue.segments(first)[i] = {.address = i, .length = i + 1, .lkey = {i + 2}};
  SendRequest& second = *queue.reserve();
  second.inline_data = true;
  std::memset(queue.inline_bytes(second), 0x5A, 100);
  queue.publish();

  const SendRequest& seen = queue.at(0);
  ASSERT_EQ(queue.segments(seen).size(), 3u);
  EXPECT_EQ(queue.segments(seen)[2].length, 3u);
  EXPECT_EQ(queue.inline_bytes(static_cast<const SendRequest&>(queue.at(1)))[99], std::byte{0x5A});
}

TEST(WorkQueue, AReusedSlotComesBackClean) {
  SendQueue queue({.depth = 1});
  queue.reserve()->fence = true;
  queue.publish();
  queue.retire();
  EXPECT_FALSE(queue.reserve()->fence);
}

TEST(WorkQueue, KeepsOrderBetweenThreads) {
  constexpr uint64_t kCount = 50'000;
  ReceiveQueue queue({.depth = 17});
  std::thread poster([&] {
    for (uint64_t i = 0; i < kCount;) {
      ReceiveRequest* request = queue.reserve();
      if (request == nullptr) {
        std::this_thread::yield();
        continue;
      }
      request->wr_id = i++;
      queue.publish();
    }
  });
  for (uint64_t i = 0; i < kCount;) {
    if (queue.retired() == queue.published()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(queue.at(queue.retired()).wr_id, i++);
    queue.retire();
  }
  poster.join();
}

}  // namespace
}  // namespace uroce::queue
