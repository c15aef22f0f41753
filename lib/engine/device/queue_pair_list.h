#pragma once

#include <cstddef>
#include <memory>

#include "base/values/contract.h"
#include "engine/poller/poller_qp.h"

namespace uroce::engine {

/// Owns the queue pairs of a device. They bring their places in the list, so one comes or goes without memory
/// and without a search. One thread at a time.
class QueuePairList {
 public:
  QueuePairList() = default;
  ~QueuePairList() {
    while (first_ != nullptr) take(*first_);
  }
  QueuePairList(const QueuePairList&) = delete;
  QueuePairList& operator=(const QueuePairList&) = delete;

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] PollerQp* first() const { return first_; }  // the others follow by `next`

  PollerQp& add(std::unique_ptr<PollerQp> added) {
    PollerQp& entry = *added.release();
    entry.next = first_;
    if (first_ != nullptr) first_->previous = &entry;
    first_ = &entry;
    ++size_;
    return entry;
  }
  std::unique_ptr<PollerQp> take(PollerQp& entry) {
    UROCE_ASSERT(size_ > 0 && (entry.previous != nullptr || first_ == &entry));
    (entry.previous != nullptr ? entry.previous->next : first_) = entry.next;
    if (entry.next != nullptr) entry.next->previous = entry.previous;
    entry.previous = entry.next = nullptr;
    --size_;
    return std::unique_ptr<PollerQp>(&entry);
  }

 private:
  PollerQp* first_ = nullptr;
  size_t size_ = 0;
};

}  // namespace uroce::engine
