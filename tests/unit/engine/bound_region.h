#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

#include "connected_pair.h"
#include "mem/regions/fast_region.h"

namespace uroce::engine {

/// A region of one page for `side`, bound.
class BoundRegion {
 public:
  explicit BoundRegion(const Side& side)
      : bus_(side.device().bus_space()),
        address_(bus_.map(page_.data(), page_.size(), mem::Direction::kBidirectional).value()),
        list_(bus_, 1),
        region_(std::move(mem::FastRegion::make(side.device().regions(), side.domain(), 1).value())) {
    list_.addresses()[0] = address_;
    EXPECT_EQ(list_.post({1, 12, 0, page_.size()}, mem::kLocalWrite), 0);
    const mem::FastBinding binding{key(), key(), mem::kLocalWrite, 0, &list_};
    EXPECT_EQ(mem::bind_fast_region(side.device().regions(), binding, side.domain()), mem::Outcome::kDone);
  }
  ~BoundRegion() {
    EXPECT_TRUE(region_->end().ok());
    if (mapped_) {
      EXPECT_EQ(unmap(), 0);
    }
  }
  [[nodiscard]] MemoryKey key() const { return region_->first_key(); }
  int unmap() {
    const mem::BusRange range{address_, page_.size()};
    const Status status = bus_.unmap({&range, 1}, mem::Direction::kBidirectional);
    mapped_ = !status.ok();
    return status ? 0 : status.error().code;
  }

 private:
  alignas(4096) std::array<std::byte, 4096> page_{};
  bool mapped_ = true;
  mem::BusSpace& bus_;
  uint64_t address_;
  mem::PageList list_;
  std::unique_ptr<mem::FastRegion> region_;
};

/// SEND with invalidate, or a local invalidate, without a receive.
inline void post_invalidation(const Side& side, queue::SendOperation operation, MemoryKey key) {
  queue::SendRequest& request = *side.queue_pair().send_queue.reserve();
  request.operation = operation;
  request.invalidate = key;
  request.signaled = true;
  side.queue_pair().send_queue.publish();
  side.device().ring_doorbell(side.queue_pair());
}

}  // namespace uroce::engine
