#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {

/// A queue pair beside which there is a region for fast registration, over memory of its own: kPages pages,
/// each mapped for itself, the last one first.
class FastRegistrationTest : public QueuePairTest {
 protected:
  static constexpr uint64_t kPage = 4096;
  static constexpr uint32_t kPages = 3;
  static constexpr uint64_t kFastIova = 0x5000'0000'0123;
  static constexpr uint64_t kFastBytes = kPages * kPage;
  static constexpr mem::Access kAll = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

  FastRegistrationTest() {
    for (uint32_t i = 0; i < kPages; ++i) {
      buses.push_back(bus.map(page(i), kPage, mem::Direction::kBidirectional).value());
      list.addresses()[i] = buses[i];
    }
  }

  /// What page i of the list is.
  [[nodiscard]] std::byte* page(uint32_t i) { return fast_memory + (kPages - 1 - i) * kPage; }
  [[nodiscard]] MemoryKey key(uint8_t low) const { return MemoryKey::make(region->first_key().index(), low); }
  [[nodiscard]] mem::Fault fault(MemoryKey of, uint64_t length = kFastBytes) const {
    return regions.resolve(of, {.domain = domain}, kFastIova, length, mem::kRemoteWrite).fault();
  }

  queue::SendRequest& post_register(uint8_t low) {
    EXPECT_EQ(list.post({kPages, 12, 0, kFastBytes}, kAll), 0);
    queue::SendRequest& request = reserve_local(queue::SendOperation::kRegister);
    sends.set_operation(request, RegisterOperation{.region = region->first_key(),
                                                   .key = key(low),
                                                   .access = kAll,
                                                   .iova = kFastIova,
                                                   .pages = &list});
    sends.publish();
    return request;
  }
  /// Bound at once, by no work request.
  void bind(uint8_t low) {
    ASSERT_EQ(list.post({kPages, 12, 0, kFastBytes}, kAll), 0);
    ASSERT_EQ(mem::bind_fast_region(regions, {region->first_key(), key(low), kAll, kFastIova, &list}, domain),
              mem::Outcome::kDone);
  }
  /// 0, or what is in the way of unmapping all pages.
  int unmap() {
    std::vector<mem::BusRange> ranges;
    for (const uint64_t address : buses) ranges.push_back({address, kPage});
    const Status status = bus.unmap(ranges, mem::Direction::kBidirectional);
    return status.ok() ? 0 : status.error().code;
  }
  /// All bytes, in the order of the region.
  [[nodiscard]] Bytes fast_bytes() {
    Bytes bytes;
    for (uint32_t i = 0; i < kPages; ++i) bytes.insert(bytes.end(), page(i), page(i) + kPage);
    return bytes;
  }

  Bytes room = Bytes(kFastBytes + kPage);
  std::byte* const fast_memory = room.data() + (kPage - reinterpret_cast<uintptr_t>(room.data()) % kPage);
  std::vector<uint64_t> buses;
  mem::PageList list{bus, kPages};
  std::unique_ptr<mem::FastRegion> region = std::move(mem::FastRegion::make(regions, domain, kPages).value());
};

}  // namespace uroce::qp::testing
