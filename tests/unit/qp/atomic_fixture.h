#pragma once

#include <cstring>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {

/// A queue pair and a region that grant atomics.
class Atomic : public QueuePairTest {
 protected:
  static constexpr mem::Access kAll =
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;

  Atomic() {
    attributes.timeout = 0;
    grant(kAll);
  }

  // Our requests.
  queue::SendRequest& post_atomic(queue::SendOperation operation, uint64_t swap_or_add, uint64_t compare = 0,
                                  uint64_t offset = 0) {
    queue::SendRequest& request = post(operation, 8, offset);
    sends.operands(request) = {swap_or_add, compare};
    return request;
  }
  void receive_original(uint32_t psn, uint64_t value) {
    wire::Headers headers = from_peer(wire::Operation::kAtomicAcknowledge, psn);
    headers.aeth = wire::Aeth::ack(0);
    headers.atomic_original = value;
    receive(headers);
  }

  // The peer's.
  [[nodiscard]] wire::Headers atomic(wire::Operation operation, uint32_t psn, uint64_t offset,
                                     uint64_t swap_or_add, uint64_t compare = 0) const {
    wire::Headers headers = from_peer(operation, psn);
    headers.bth.ack_request = true;
    headers.atomic = {kIova + offset, keys.rkey, swap_or_add, compare};
    return headers;
  }
  void receive_add(uint32_t psn, uint64_t offset, uint64_t add) {
    receive(atomic(wire::Operation::kFetchAdd, psn, offset, add));
  }
  void receive_swap(uint32_t psn, uint64_t offset, uint64_t compare, uint64_t swap) {
    receive(atomic(wire::Operation::kCompareSwap, psn, offset, swap, compare));
  }
  /// The only frame that went out is that answer.
  void expect_original(uint32_t psn, uint64_t value) {
    const auto frames = pump();
    ASSERT_EQ(frames.size(), 1u);
    expect_original(frames[0], psn, value);
  }
  static void expect_original(const Sent& frame, uint32_t psn, uint64_t value) {
    EXPECT_EQ(frame.operation(), wire::Operation::kAtomicAcknowledge);
    EXPECT_EQ(frame.psn(), psn);
    EXPECT_EQ(frame.aeth().kind, wire::AethKind::kAck);
    EXPECT_EQ(frame.packet.headers.atomic_original, value);
  }

  [[nodiscard]] uint64_t word(uint64_t offset) const {
    uint64_t value = 0;
    std::memcpy(&value, memory.data() + offset, sizeof(value));
    return value;
  }
  void set_word(uint64_t offset, uint64_t value) {
    std::memcpy(memory.data() + offset, &value, sizeof(value));
  }
};

}  // namespace uroce::qp::testing
