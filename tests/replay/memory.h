#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mem/keys/region_table.h"
#include "mem/regions/fast_region.h"
#include "messages.h"
#include "queue/work_request.h"

namespace uroce::replay {

/// All memory of our end, with what a capture says about it: the peer's regions, as far as its requests name
/// them, the buffers of our own requests, and the receives. Every byte that is not written to has to stay as
/// it was, also around the buffers.
class Memory {
 public:
  /// Registers with `regions`, which must outlive this. `own` and `peers` are what we and the peer ask for.
  Memory(mem::RegionTable& regions, DomainId domain, const Requests& own, const Requests& peers);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Our key for the kernel's. A request without a byte to read or write gets one that names nothing: no
  /// check may look at it.
  [[nodiscard]] MemoryKey key(const wire::Reth& captured) const;
  /// The same for the key of an atomic or one that a SEND invalidates, and back.
  [[nodiscard]] MemoryKey key(MemoryKey captured) const;
  [[nodiscard]] MemoryKey captured(MemoryKey ours) const;
  /// The buffer of our i-th message; that of the receive for the peer's i-th message.
  [[nodiscard]] queue::Segment buffer(size_t i) const { return segment(*buffers_[i]); }
  [[nodiscard]] queue::Segment receive(size_t i) const { return segment(*receives_[i]); }

  /// Its owner changes the memory before that frame, because the READ in it finds something else than what
  /// was known to be there.
  void owner_stores(size_t frame);

  /// What is not as it should be in the end.
  [[nodiscard]] std::vector<std::string> differences() const;
  /// For tests of the test: the first byte of the first region changes.
  void spoil();

 private:
  /// A registered piece of memory between two guards.
  struct Area {
    std::string name;
    Bytes bytes;
    Bytes expected;
    bool content_open = false;  // only the guards are judged
    mem::RegionKeys keys;
    uint64_t iova = 0;
    std::unique_ptr<mem::FastRegion> fast;  // of a region that the peer invalidates
    bool invalidated = false;               // in the end
    Bytes known;                            // of a region: not 0 where its content was named
  };
  struct Store {
    size_t frame = 0;
    Area* area = nullptr;
    size_t at = 0;
    std::byte value{};
  };
  /// Addresses that the peer's accepted requests name with one key.
  struct Span {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
  };

  Area& add(std::string name, uint64_t length);
  void register_area(Area& area, uint64_t iova, mem::Access access);
  void bind_area(Area& area);
  static queue::Segment segment(const Area& area);
  void add_regions(const Requests& peers);
  void expect(const Message& message);
  void add_buffers(const Requests& own);
  void add_receives(const Requests& peers);

  mem::RegionTable& regions_;
  const DomainId domain_;
  std::list<Area> areas_;
  std::map<MemoryKey, Area*> remote_;
  std::vector<Store> stores_;
  std::vector<Area*> buffers_;
  std::vector<Area*> receives_;
};

}  // namespace uroce::replay
