#pragma once

#include <infiniband/urocedv.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {

/// Every kind of region that an application can make.
enum class Kind {
  kUser,
  kZeroBased,
  kDma,
  kReserved,
  kPhysical,
  kFmr,
  kFast,
  kWindow1,
  kWindow2A,
  kWindow2B,
};
const char* name(Kind kind);
constexpr bool is_window(Kind kind) { return kind >= Kind::kWindow1; }

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kRegionPages = 4;
inline constexpr size_t kRegionBytes = kRegionPages * kPageBytes;
inline constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
/// All that the kind can have.
int best_rights(Kind kind);

/// What came of something that was tried, as it shows at both ends.
struct Outcome {
  int error = 0;                        // of the call, which then did nothing; kNoCall: there is no such call
  ibv_wc_status own = IBV_WC_SUCCESS;   // the owner's completion
  ibv_wc_status peer = IBV_WC_SUCCESS;  // the peer's, when it has a part in it
  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Outcome& outcome);
inline constexpr int kNoCall = -1;

/// One region of any kind. Its keys stay in here when they are dead.
struct Region {
  Kind kind = Kind::kUser;
  uint64_t address = 0;  // of the first byte under its keys
  uint32_t lkey = 0;
  uint32_t rkey = 0;
  ibv_mr* mr = nullptr;  // what verbs calls it, if that is a region
  ibv_mw* window = nullptr;
  urocedv_fmr* fmr = nullptr;
  std::unique_ptr<Region> parent;  // a window's
  std::vector<uint8_t*> pages;     // in their order in the region
  Outcome made;

  [[nodiscard]] uint8_t& at(size_t offset) const { return pages[offset / kPageBytes][offset % kPageBytes]; }
};

/// An owner of regions and a peer that is connected to it. The regions lie in the owner's arena, which is
/// mapped on the bus as a whole; those that can do so have its pages in another order.
class Parties {
 public:
  static constexpr size_t kArenaPages = 8;
  static constexpr size_t kArenaBytes = kArenaPages * kPageBytes;

  Parties();
  ~Parties();
  Parties(const Parties&) = delete;
  Parties& operator=(const Parties&) = delete;

  /// Live, over kRegionBytes of the arena; or `made` says why not, and there is nothing to be released but a
  /// window's parent. `over`: what a window is bound to.
  [[nodiscard]] Region make(Kind kind, int access, Kind over = Kind::kUser);
  /// A mapped FMR is unmapped, a bound region for fast registration invalidated, a bound window unbound.
  void unbind(Region& region);
  /// The errno of the call that ends it. A window's parent stays.
  int end(Region& region);
  /// Whatever is left of it.
  void release(Region& region);

  Outcome register_fast(Region& region, int access, uint8_t key);
  /// As its type is bound.
  Outcome bind_window(ibv_mw* window, const ibv_mw_bind_info& info);
  Outcome local_invalidate(uint32_t key);

  [[nodiscard]] uint8_t* page(size_t number) const { return arena_.get() + number * kPageBytes; }
  [[nodiscard]] uint64_t bus() const { return bus_; }
  [[nodiscard]] std::vector<uint8_t> arena() const { return {page(0), page(kArenaPages)}; }
  void fill_arena(uint8_t seed) const;
  int unmap_arena() const;
  void map_arena();

  /// Both queue pairs, from whatever state; what was outstanding is forgotten.
  void reconnect() const;

  End peer;
  End owner;

 private:
  void make_window(Region& region, int access, Kind over);
  void make_fmr(Region& region, int access);

  std::unique_ptr<uint8_t, decltype(&std::free)> arena_{
      static_cast<uint8_t*>(std::aligned_alloc(kPageBytes, kArenaBytes)), &std::free};
  uint64_t bus_ = 0;
  urocedv_page_list* list_ = nullptr;
};

/// ibv_create_qp for all that the queue pairs of uroce can do, the reserved L_Key too.
ibv_qp* create_able(ibv_pd* pd, ibv_qp_init_attr* initial);

}  // namespace uroce::verbs_test
