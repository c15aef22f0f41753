#pragma once

#include <cstddef>
#include <memory>

#include "base/values/contract.h"
#include "engine/poller/queue_pair_entry.h"

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
  [[nodiscard]] QueuePairEntry* first() const { return first_; }  // the others follow by `next`

  QueuePairEntry& add(std::unique_ptr<QueuePairEntry> added) {
    QueuePairEntry& entry = *added.release();
    entry.next = first_;
    if (first_ != nullptr) first_->previous = &entry;
    first_ = &entry;
    ++size_;
    return entry;
  }
  std::unique_ptr<QueuePairEntry> take(QueuePairEntry& entry) {
    UROCE_ASSERT(size_ > 0 && (entry.previous != nullptr || first_ == &entry));
    (entry.previous != nullptr ? entry.previous->next : first_) = entry.next;
    if (entry.next != nullptr) entry.next->previous = entry.previous;
    entry.previous = entry.next = nullptr;
    --size_;
    return std::unique_ptr<QueuePairEntry>(&entry);
  }

 private:
  QueuePairEntry* first_ = nullptr;
  size_t size_ = 0;
};

}  // namespace uroce::engine
