// What a queue pair takes beside the slots of its queues, and where the lines of the posting threads are.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "base/tables/pooled.h"
#include "engine/poller/poller_qp.h"
#include "verbs/calls/objects.h"

namespace uroce::engine {
namespace {

std::unique_ptr<PollerQp> make_entry(qp::Type type = qp::Type::kRc) {
  return std::make_unique<PollerQp>(qp::QueuePairOptions{.type = type, .number = {2}},
                                    queue::SendQueue::Ring({.depth = 4}),
                                    queue::ReceiveQueue::Ring({.depth = 4}), std::span<Poller* const>(), 0);
}

TEST(QueuePairSize, UnusedItIsAPieceOf640Bytes) {
  EXPECT_LE(sizeof(PollerQp), 640u) << "with more, the pool takes 768";
}

TEST(QueuePairSize, UsedItHasAnotherOf1024Bytes) {
  EXPECT_LE(sizeof(qp::QueuePair), 1024u) << "with more, the pool takes 1280";
}

TEST(QueuePairSize, WhatAProgramHoldsIsAPieceOf256Bytes) {
  EXPECT_LE(sizeof(verbs::PlainQp), 256u) << "ibv_qp and what verbs keep beside it: 1 KiB with the above";
  EXPECT_LE(sizeof(verbs::ExtendedQp), 512u) << "that of ibv_wr_*";
}

TEST(QueuePairSize, LinesOfThePostingThreadsAreNobodyElses) {
  constexpr uintptr_t kLine = PooledMemory::kAlignment;
  const std::unique_ptr<PollerQp> entry = make_entry();
  const auto begin = reinterpret_cast<uintptr_t>(entry.get());
  ASSERT_EQ(begin % kLine, 0u);
  const auto of_posting = [](const auto& queue) {
    return reinterpret_cast<uintptr_t>(&queue) + queue::SendQueue::kPostingAt;
  };
  for (const uintptr_t line : {of_posting(entry->send_queue), of_posting(entry->receive_queue)})
    EXPECT_EQ(line % kLine, 0u);
  const auto line_of = [](const auto& member) { return reinterpret_cast<uintptr_t>(&member) / kLine; };
  // What the poller writes begins behind.
  EXPECT_GT(line_of(entry->rss_mismatch), of_posting(entry->send_queue) / kLine);
  EXPECT_GT(line_of(entry->early_requests), of_posting(entry->receive_queue) / kLine);
  EXPECT_LT(line_of(entry->frame_bytes), of_posting(entry->send_queue) / kLine);
}

}  // namespace
}  // namespace uroce::engine
