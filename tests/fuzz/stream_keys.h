#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mem/bus/bus_space.h"
#include "mem/bus/page_list.h"
#include "mem/keys/region_table.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/window.h"
#include "queue/work_queue.h"
#include "tests/unit/copy/vanishing_memory.h"

namespace uroce::fuzz {

/// Keys beside those of a StreamTarget's own regions, whose meaning changes while it is served: a region for
/// fast registration and two windows, which its work requests bind and any party invalidates, a region that
/// is registered anew, and one whose memory goes away and comes back.
class StreamKeys {
 public:
  static constexpr uint64_t kIova = 0x5000'0000'0000;  // of each
  static constexpr uint32_t kBytes = 2 * 4096;         // of each

  StreamKeys(mem::RegionTable& regions, mem::BusSpace& bus, DomainId domain);
  /// No queue pair holds a request of ours.
  ~StreamKeys();
  StreamKeys(const StreamKeys&) = delete;
  StreamKeys& operator=(const StreamKeys&) = delete;

  enum class Kind : uint8_t { kFast, kWindow1, kWindow2, kAnew, kGone };
  static constexpr uint32_t kKinds = 5;
  static Kind kind(uint32_t number) { return static_cast<Kind>(number % kKinds); }
  /// The key that it has, or had last.
  [[nodiscard]] MemoryKey key(Kind kind) const;
  [[nodiscard]] uint64_t iova(Kind kind) const { return kind == Kind::kFast ? kIova + kFastOffset : kIova; }

  /// Fills in a local operation. False: its page list is posted already.
  bool prepare(queue::SendOperation operation, Kind kind, uint8_t low, queue::SendQueue& queue,
               queue::SendRequest& request);

  // Between turns.
  /// The region that is registered anew has another key.
  void register_anew();
  void vanish();
  void come_back();

 private:
  static constexpr uint64_t kFastOffset = 0x123;
  static constexpr mem::Access kAll = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
  static constexpr mem::Access kParent =
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic | mem::kWindowBind;

  [[nodiscard]] mem::RegionKeys enter(std::byte* memory, uint64_t bytes, mem::Access access);

  mem::RegionTable& regions_;
  mem::BusSpace& bus_;
  const DomainId domain_;
  std::vector<std::byte> room_ = std::vector<std::byte>(3 * 4096 + 4096);
  const uroce::testing::VanishingMemory gone_{2};
  std::vector<uint64_t> buses_;
  mem::PageList list_;
  std::unique_ptr<mem::FastRegion> fast_;
  std::unique_ptr<mem::Window> window1_;
  std::unique_ptr<mem::Window> window2_;
  mem::RegionKeys parent_;
  mem::RegionKeys anew_;
  mem::RegionKeys gone_keys_;
  MemoryKey fast_key_;
  MemoryKey window1_key_;
  MemoryKey window2_key_;
  bool there_ = true;
};

}  // namespace uroce::fuzz
