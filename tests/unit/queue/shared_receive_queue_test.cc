#include "queue/shared_receive_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uroce::queue {
namespace {

const ReceiveRequest& post(SharedReceiveQueue& queue, uint64_t id) {
  ReceiveRequest& request = *queue.reserve();
  request.wr_id = id;
  queue.publish(request);
  return request;
}

TEST(SharedReceiveQueue, RequestsAreTakenInOrderAndGivenBackInAny) {
  SharedReceiveQueue queue({.depth = 3});
  EXPECT_TRUE(queue.empty());
  for (uint64_t id = 0; id < 3; ++id) post(queue, id);
  EXPECT_EQ(queue.reserve(), nullptr);
  EXPECT_EQ(queue.front().wr_id, 0u);
  const ReceiveRequest& first = queue.take();
  const ReceiveRequest& second = queue.take();
  EXPECT_EQ(first.wr_id, 0u);
  EXPECT_EQ(second.wr_id, 1u);
  EXPECT_EQ(queue.reserve(), nullptr) << "a request that is being filled still has its slot";

  queue.give_back(second);
  post(queue, 3);
  EXPECT_EQ(first.wr_id, 0u) << "its slot is its own";
  EXPECT_EQ(queue.reserve(), nullptr);
  EXPECT_EQ(queue.take().wr_id, 2u);
  EXPECT_EQ(queue.take().wr_id, 3u);
  EXPECT_TRUE(queue.empty());
}

TEST(SharedReceiveQueue, SegmentsBelongToTheirRequest) {
  SharedReceiveQueue queue({.depth = 2, .segments_max = 2});
  for (uint32_t id = 0; id < 2; ++id) {
    ReceiveRequest& request = *queue.reserve();
    request.segments = 2;
    for (uint32_t i = 0; i < 2; ++i) queue.segments(request)[i] = {.address = id, .length = i, .lkey = {id}};
    queue.publish(request);
  }
  for (uint32_t id = 0; id < 2; ++id) {
    const auto segments = queue.segments(queue.take());
    ASSERT_EQ(segments.size(), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(segments[i].address, id);
      EXPECT_EQ(segments[i].length, i);
    }
  }
}

struct Counting final : LimitListener {
  void limit_reached(SharedReceiveQueue&) override { ++times; }
  int times = 0;
};

TEST(SharedReceiveQueue, TellsOnceWhenFewerThanTheLimitAreLeft) {
  Counting listener;
  SharedReceiveQueue queue({.depth = 8, .listener = &listener});
  for (uint64_t id = 0; id < 8; ++id) post(queue, id);
  queue.set_limit(6);
  queue.take();
  queue.take();
  EXPECT_EQ(listener.times, 0) << "six are left";
  queue.take();
  EXPECT_EQ(listener.times, 1);
  EXPECT_EQ(queue.limit(), 0u);
  queue.take();
  EXPECT_EQ(listener.times, 1);
  queue.set_limit(8);
  queue.take();
  EXPECT_EQ(listener.times, 2);
}

TEST(SharedReceiveQueue, CarriesFromOneThreadToAnother) {
  constexpr uint64_t kRequests = 50'000;
  SharedReceiveQueue queue({.depth = 13});
  std::thread poster([&] {
    for (uint64_t id = 0; id < kRequests;) {
      ReceiveRequest* request = queue.reserve();
      if (request == nullptr) {
        std::this_thread::yield();
        continue;
      }
      request->wr_id = id++;
      queue.publish(*request);
    }
  });
  std::vector<const ReceiveRequest*> taken;
  for (uint64_t id = 0; id < kRequests;) {
    if (queue.empty()) {
      std::this_thread::yield();
    } else {
      taken.push_back(&queue.take());
      ASSERT_EQ(taken.back()->wr_id, id++);
    }
    // The newest goes back first.
    if (taken.size() == 5 || queue.empty()) {
      for (; !taken.empty(); taken.pop_back()) queue.give_back(*taken.back());
    }
  }
  poster.join();
}

}  // namespace
}  // namespace uroce::queue
