#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mem/bus/page_list.h"
#include "mem/keys/region_table.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/fmr.h"
#include "mem/regions/physical_region.h"
#include "mem/regions/window.h"
#include "reference.h"

namespace uroce::mem {

/// Few of each, so that they meet.
inline DomainId domain_of(uint32_t number) { return {1 + number % 2}; }
/// All zero in the low half of what an entry keeps of them.
inline QpIdentity queue_pair_of(uint32_t number) { return {uint64_t{1 + number % 2} << 31}; }

/// One step of a random program. What the numbers mean follows from the state that it meets, so that any list
/// of them is a program, and parts of one are, too.
struct Command {
  uint8_t what = 0;
  std::array<uint32_t, 6> numbers{};
};

/// Runs programs on the key table and on the reference, side by side.
class Machine {
 public:
  explicit Machine(uint64_t bus_offset);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// What differs between the two after the command; empty when nothing does.
  std::string step(const Command& command);

 private:
  /// What the stack made for a region of the reference, at the same place.
  struct Made {
    std::unique_ptr<PhysicalRegion> physical;
    std::unique_ptr<Fmr> fmr;
    std::unique_ptr<FastRegion> fast;
    std::unique_ptr<Window> window;
  };
  struct Pages {
    std::vector<uint64_t> addresses;
    std::vector<size_t> mappings;
    std::vector<Stretch> bytes;
    bool mapped = true;  // all of them, for what `access` asks
  };
  using Numbers = std::array<uint32_t, 6>;

  std::string map(const Numbers& n);
  std::string unmap(const Numbers& n);
  std::string make_user(const Numbers& n);
  std::string make_dma(const Numbers& n);
  std::string make_physical(const Numbers& n);
  std::string make_fmr(const Numbers& n);
  std::string map_fmr(const Numbers& n);
  std::string unmap_fmr(const Numbers& n);
  std::string make_fast(const Numbers& n);
  std::string bind_fast(const Numbers& n);
  std::string make_window(const Numbers& n);
  std::string bind_window(const Numbers& n);
  std::string invalidate(const Numbers& n);
  std::string end(const Numbers& n);
  std::string look(const Numbers& n);

  /// What the documentation says about a bind. `region`: the index of what it is bound to, if there is one.
  [[nodiscard]] bool may_be_bound(const ReferenceRegion& window, const WindowBinding& wanted,
                                  const KeyUser& user, size_t region) const;
  /// A region of the kind, in whatever state but ended; `regions.size()` when there is none.
  [[nodiscard]] size_t choose(uint32_t number, RegionKind kind) const;
  [[nodiscard]] Pages choose_pages(const Numbers& n, uint32_t count, Access access) const;
  void add(ReferenceRegion region, Made made = {});
  void bind(ReferenceRegion& region, MemoryKey key, uint64_t iova, Pages pages);

  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  LockedMemory locked_;
  BusSpace bus_;
  RegionTable table_;
  Reference reference_;
  std::vector<Made> made_;
  std::vector<std::unique_ptr<PageList>> lists_;
};

}  // namespace uroce::mem
