// Decision: a queue pair gets the memory of its transport at its first use, and keeps it. An idle connected
// one stays within 1,024 bytes beside its queues. Cost: a dependent load (`perf/run --only scale`); without
// memory, posts wait and packets are dropped (drop_no_memory).
//
// Decision: only a packet that passes packet_checks.h begins the use. Otherwise a stranger could make every
// idle queue pair take memory (tests/hostile/unused_test.py).
#include "qp/queue_pair/queue_pair_storage.h"

#include <cerrno>
#include <memory_resource>
#include <new>

#include "base/tables/pooled_memory.h"
#include "qp/connection/packet_checks.h"
#include "qp/connection/receive_requests.h"
#include "qp/requester/local_operation.h"

namespace uroce::qp {

namespace {

std::pmr::memory_resource& memory_of(const QueuePairOptions& options) {
  return options.transport->memory != nullptr ? *options.transport->memory : *pooled_memory();
}

}  // namespace

QueuePair* QueuePairStorage::begin_use() {
  void* place = nullptr;
  try {
    place = memory_of(options_).allocate(sizeof(QueuePair), PooledMemory::kAlignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  auto* const made = ::new (place) QueuePair(options_);
  __atomic_store_n(&used_, made, __ATOMIC_RELAXED);
  if (!made->restore(attributes_)) end_use();
  return used();
}

void QueuePairStorage::end_use() {
  QueuePair* const ended = used();
  if (ended == nullptr) return;
  __atomic_store_n(&used_, nullptr, __ATOMIC_RELAXED);
  ended->~QueuePair();
  memory_of(options_).deallocate(ended, sizeof(QueuePair), PooledMemory::kAlignment);
}

bool QueuePairStorage::wants_use() const {
  const queue::SendQueue& sends = *options_.send_queue;
  return used() == nullptr && attributes_.state == State::kRts && sends.published() != sends.retired();
}

Counter QueuePairStorage::reason_to_drop(const wire::Packet& packet) const {
  const uint16_t partition_key = options_.transport->partition_keys[attributes_.pkey_index];
  const Counter reason = qp::reason_to_drop(packet, service_of(type()), partition_key, attributes_);
  if (reason != Counter::kCount || type() != Type::kUd) return reason;
  const ReceiveRequests receives(*options_.receive_queue, options_.shared_receives);
  return reason_to_drop_datagram(packet, attributes_.qkey, options_.datagram_mtu, receives);
}

int QueuePairStorage::modify(const Attributes& attributes, AttributeMask mask, Turn& turn) {
  const bool was_used = used() != nullptr;
  QueuePair* const queue_pair = use();
  if (queue_pair == nullptr) return ENOMEM;
  const int error = queue_pair->modify(attributes, mask, turn);
  if (was_used || !queue_pair->is_as_restored()) return error;
  attributes_ = queue_pair->attributes();
  end_use();
  return error;
}

CongestionState QueuePairStorage::congestion() const {
  if (used() != nullptr) return used()->congestion();
  return {.control = options_.transport->congestion.control,
          .window = is_reliable(options_.type) ? SendWindow::kPackets : 0};
}

bool QueuePairStorage::abandon(Turn& turn) {
  if (used() != nullptr) return used()->abandon(turn);
  // None of them has started.
  queue::SendQueue& sends = *options_.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire())
    drop_operation(sends, sends.at(sends.retired()));
  return true;
}

}  // namespace uroce::qp
