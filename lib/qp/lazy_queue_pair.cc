#include "qp/lazy_queue_pair.h"

#include <cerrno>
#include <memory_resource>
#include <new>
#include <utility>

#include "base/pooled_memory.h"
#include "qp/local_operation.h"

namespace uroce::qp {

namespace {

std::pmr::memory_resource& memory_of(const QueuePairOptions& options) {
  return options.transport->memory != nullptr ? *options.transport->memory : *pooled_memory();
}

}  // namespace

QueuePair* LazyQueuePair::begin_use() {
  void* place = nullptr;
  try {
    place = memory_of(options_).allocate(sizeof(QueuePair), PooledMemory::kAlignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  used_ = ::new (place) QueuePair(options_);
  if (!used_->restore(attributes_)) end_use();
  return used_;
}

void LazyQueuePair::end_use() {
  if (used_ == nullptr) return;
  used_->~QueuePair();
  memory_of(options_).deallocate(std::exchange(used_, nullptr), sizeof(QueuePair), PooledMemory::kAlignment);
}

bool LazyQueuePair::wants_use() const {
  const queue::SendQueue& sends = *options_.send_queue;
  return used_ == nullptr && attributes_.state == State::kRts && sends.published() != sends.retired();
}

int LazyQueuePair::modify(const Attributes& attributes, AttributeMask mask, Turn& turn) {
  const bool was_used = used_ != nullptr;
  if (use() == nullptr) return ENOMEM;
  const int error = used_->modify(attributes, mask, turn);
  if (was_used || !used_->is_as_restored()) return error;
  attributes_ = used_->attributes();
  end_use();
  return error;
}

CongestionState LazyQueuePair::congestion() const {
  if (used_ != nullptr) return used_->congestion();
  return {.control = options_.transport->congestion.control,
          .window = is_reliable(options_.type) ? SendWindow::kPackets : 0};
}

bool LazyQueuePair::abandon(Turn& turn) {
  if (used_ != nullptr) return used_->abandon(turn);
  // None of them has started.
  queue::SendQueue& sends = *options_.send_queue;
  for (const uint32_t end = sends.published(); sends.retired() != end; sends.retire())
    drop_operation(sends, sends.at(sends.retired()));
  return true;
}

}  // namespace uroce::qp
