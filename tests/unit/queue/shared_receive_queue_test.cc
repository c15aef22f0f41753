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
  ReceiveRequest& second = queue.take();
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
    const ReceiveRequest& request = queue.take();
    const auto segments = queue.segments(request);
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
  std::vector<ReceiveRequest*> taken;
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

bool resize(SharedReceiveQueue& queue, uint32_t depth) { return queue.resize(*queue.prepare(depth)); }

/// How many more there is room for.
size_t room(SharedReceiveQueue& queue) {
  size_t count = 0;
  while (queue.reserve() != nullptr) ++count;
  return count;
}

TEST(SharedReceiveQueueResize, WhatWasPostedStaysInOrderAndWhatWasTakenWhereItIs) {
  SharedReceiveQueue queue({.depth = 3, .segments_max = 2});
  for (uint64_t id = 0; id < 3; ++id) {
    ReceiveRequest& request = *queue.reserve();
    request.wr_id = id;
    request.segments = 1;
    queue.segments(request)[0] = {.address = id, .length = 1, .lkey = {7}};
    queue.publish(request);
  }
  ReceiveRequest& taken = queue.take();
  ASSERT_TRUE(resize(queue, 100));
  EXPECT_EQ(queue.depth(), 100u);
  EXPECT_EQ(taken.wr_id, 0u);
  EXPECT_EQ(queue.segments(static_cast<const ReceiveRequest&>(taken))[0].address, 0u);
  for (uint64_t id = 3; id < 100; ++id) post(queue, id);
  EXPECT_EQ(queue.reserve(), nullptr) << "what was taken counts";
  queue.give_back(taken);
  post(queue, 100);
  EXPECT_EQ(queue.reserve(), nullptr);
  for (uint64_t id = 1; id <= 100; ++id) {
    ReceiveRequest& next = queue.take();
    EXPECT_EQ(next.wr_id, id);
    queue.give_back(next);
  }
  EXPECT_EQ(room(queue), 100u);
}

TEST(SharedReceiveQueueResize, NotBelowWhatIsOutstanding) {
  SharedReceiveQueue queue({.depth = 8});
  for (uint64_t id = 0; id < 5; ++id) post(queue, id);
  ReceiveRequest& taken = queue.take();
  EXPECT_FALSE(resize(queue, 4));
  EXPECT_EQ(queue.depth(), 8u);
  ASSERT_TRUE(resize(queue, 5));
  EXPECT_EQ(queue.depth(), 5u);
  EXPECT_EQ(queue.reserve(), nullptr);
  queue.give_back(taken);
  ASSERT_TRUE(resize(queue, 4));
  EXPECT_EQ(queue.reserve(), nullptr);
  for (uint64_t id = 1; id < 5; ++id) EXPECT_EQ(queue.take().wr_id, id);
  EXPECT_TRUE(queue.empty());
}

/// There and back as often as one likes: no slot is lost, and none is there twice.
TEST(SharedReceiveQueueResize, ManyTimes) {
  SharedReceiveQueue queue({.depth = 1});
  uint64_t posted = 0;
  uint64_t taken = 0;
  uint32_t outstanding = 0;
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t depth = 1 + i * 37 % 64;
    EXPECT_EQ(resize(queue, depth), depth >= outstanding);
    while (ReceiveRequest* request = queue.reserve()) {
      request->wr_id = posted++;
      queue.publish(*request);
      ++outstanding;
    }
    EXPECT_EQ(outstanding, queue.depth());
    for (uint32_t left = i * 11 % (outstanding + 1); left > 0; --left) {
      ReceiveRequest& request = queue.take();
      ASSERT_EQ(request.wr_id, taken++);
      queue.give_back(request);
      --outstanding;
    }
  }
}

}  // namespace
}  // namespace uroce::queue
