// What a thread of the application uses is one poller's.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "virtual_pair.h"

namespace uroce::engine {
namespace {

struct ThreadDomains : ::testing::Test {
  /// The poller of a new queue pair.
  uint16_t poller_of(QueuePairOptions options) {
    options.domain = domain;
    options.send_completions = options.receive_completions = options.send_completions != nullptr
                                                                 ? options.send_completions
                                                                 : queues.emplace_back(new_queue()).get();
    const Result<QpSlot*> made = device.create_queue_pair(options);
    EXPECT_TRUE(made) << made.error().message;
    if (!made) return UINT16_MAX;
    queue_pairs.push_back(*made);
    return static_cast<PollerQp&>(**made).poller_index();
  }
  std::unique_ptr<queue::CompletionQueue> new_queue() { return device.create_completion_queue({.depth = 4}); }
  ~ThreadDomains() override {
    for (QpSlot* queue_pair : queue_pairs) device.destroy_queue_pair(*queue_pair);
    for (const auto& queue : queues) device.retire_completion_queue(*queue);
  }

  VirtualPair pair{{.pollers = 2}};
  Device& device = *pair.left;
  const DomainId domain = *device.allocate_domain();
  std::vector<std::unique_ptr<queue::CompletionQueue>> queues;
  std::vector<QpSlot*> queue_pairs;
};

TEST_F(ThreadDomains, EachBindsItsQueuePairsToOnePoller) {
  const ThreadDomain first = device.take_thread_domain();
  const ThreadDomain second = device.take_thread_domain();
  EXPECT_NE(first.poller, second.poller) << "there are two";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(poller_of({.thread_domain = first}), first.poller);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(poller_of({.thread_domain = second}), second.poller);
  EXPECT_EQ(poller_of({}), second.poller) << "without a thread: the one with less to do";
  device.give_back_thread_domain(first);
  EXPECT_EQ(device.take_thread_domain().poller, first.poller) << "it is free again";
}

TEST_F(ThreadDomains, ACompletionQueueBringsItsQueuePairs) {
  for (const ThreadDomain thread : {device.take_thread_domain(), device.take_thread_domain()}) {
    auto queue = new_queue();
    device.bind(*queue, thread);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(poller_of({.send_completions = queue.get()}), thread.poller);
    queues.push_back(std::move(queue));
  }
}

TEST_F(ThreadDomains, ACompletionQueueMayServeBoth) {
  const ThreadDomain first = device.take_thread_domain();
  const ThreadDomain second = device.take_thread_domain();
  auto queue = new_queue();
  EXPECT_EQ(poller_of({.send_completions = queue.get(), .thread_domain = first}), first.poller);
  EXPECT_EQ(poller_of({.send_completions = queue.get(), .thread_domain = second}), second.poller);
  EXPECT_EQ(queue->lanes_used(), 3u);
  queues.push_back(std::move(queue));
}

TEST_F(ThreadDomains, WhatIsRefusedDoesNotWaitForANumber) {
  std::unique_ptr<SharedReceives> shared =
      std::move(*device.create_shared_receives({.domain = domain, .queue = {.depth = 4}}));
  const ThreadDomain first = device.take_thread_domain();
  const ThreadDomain second = device.take_thread_domain();
  EXPECT_EQ(poller_of({.shared_receives = shared.get(), .thread_domain = first}), first.poller);
  // No number is free, and one rests, which it has done when time goes on.
  std::vector<QpNumber> taken;
  while (const auto number = pair.left_state->queue_pairs.allocate(VirtualPair::now()))
    taken.push_back(*number);
  pair.left_state->queue_pairs.give_back(taken.front(), VirtualPair::now());
  const auto before = std::chrono::steady_clock::now();
  const auto refused = device.create_queue_pair({.domain = domain,
                                                 .send_completions = queues.front().get(),
                                                 .receive_completions = queues.front().get(),
                                                 .shared_receives = shared.get(),
                                                 .thread_domain = second});
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  device.destroy_queue_pair(*queue_pairs.front());
  queue_pairs.clear();
  device.destroy_shared_receives(std::move(shared));
}

}  // namespace
}  // namespace uroce::engine
