#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "base/values/memory_nature.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// Kinds of region behind one table entry. More kinds are added here, not beside it.
enum class RegionKind : uint8_t {
  kNone = 0,
  kUser,          // ibv_reg_mr and its relatives
  kDma,           // urocedv_get_dma_mr: everything that is DMA-mapped, by bus address
  kReservedLKey,  // the same, for queue pairs that were made for it, in any domain
  kPhysical,      // urocedv_reg_phys_mr
  kFast,          // urocedv_alloc_mr: bound by REG_MR, until it is invalidated
  kMapped,        // FMR: bound by urocedv_map_phys_fmr, until it is unmapped
  kWindow1,       // memory windows, bound over another region
  kWindow2A,
  kWindow2B,
  kNull,  // ibv_alloc_null_mr: zeros to read, and what is written is discarded
};

/// Where the bytes of a region are. Not the same as its kind: a window lies as the region below it.
enum class Layout : uint8_t {
  kContiguous,  // at one address of the process
  kPages,       // a list of pages of one size, a power of two
  kSegments,    // a list of runs of any length
  kBus,         // nowhere in particular: an address of the region is a bus address
  kNull,        // kNullBytes of zeros, and behind them as many to be written, for any address
};

/// The longest run of a region with Layout::kNull.
inline constexpr uint64_t kNullBytes = 64u << 10;

/// Why a key did not resolve. The requester answers with a local protection error, the responder with a NAK.
/// In the order of the checks.
enum class Fault : uint8_t {
  kNone,
  kKey,        // no such key: never made, deregistered, or the low eight bits differ
  kDomain,     // another protection domain
  kAccess,     // a right that was asked for is missing
  kState,      // it is not bound: not yet, or invalidated
  kBounds,     // the range is not inside the region, wraps, or is no mapped bus address
  kQueuePair,  // a window of another queue pair
};

/// A queue pair of one device among all that it has had and will have, unlike the number, which comes back:
/// 47 bits, which are never used up. 0 is none.
struct QpIdentity {
  static constexpr unsigned kBits = 47;
  uint64_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const QpIdentity&) const = default;
};

/// The user of a key: what of a queue pair decides about its rights.
struct KeyUser {
  DomainId domain;
  bool reserved_lkey = false;  // made by urocedv_create_qp with the right to use the reserved L_Key
  QpIdentity queue_pair;
};

/// A run of bytes that is contiguous in this process.
struct Piece {
  std::byte* data = nullptr;
  uint64_t length = 0;
};

/// What a region with Layout::kSegments lies in.
struct RunList {
  struct Run {
    uint64_t end = 0;  // bytes of this run and all before it
    std::byte* data = nullptr;
  };
  std::vector<Run> runs;
};

/// A range of a region that passed all checks. Valid until the end of the turn in which it was resolved.
class Binding {
 public:
  Binding() = default;
  explicit Binding(Fault fault) : fault_(fault) {}
  /// In one piece.
  Binding(std::byte* data, uint64_t length, MemoryNature nature)
      : memory_(data), length_(length), nature_(nature) {}
  /// `memory` is what its layout says: the first byte (kContiguous), an array of pages' addresses (kPages),
  /// or a RunList (kSegments); the range begins `start` bytes into it. Of kNull it is the zeros, or what is
  /// to be written, and `start` is 0.
  Binding(void* memory, uint64_t start, uint64_t length, Layout layout, uint8_t page_shift,
          MemoryNature nature)
      : memory_(layout == Layout::kContiguous ? static_cast<std::byte*>(memory) + start : memory),
        start_(start),
        length_(length),
        layout_(layout),
        page_shift_(page_shift),
        nature_(nature) {}

  [[nodiscard]] bool ok() const { return fault_ == Fault::kNone; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] MemoryNature nature() const { return nature_; }
  /// The region is too large to stay in cache: placement may go around it.
  [[nodiscard]] bool cold() const { return nature_.cold(); }

  /// The contiguous run at `offset` (< length()) of the range, at most up to its end. Regions made of pages
  /// or segments return one run after the other.
  [[nodiscard]] Piece piece(uint64_t offset) const {
    UROCE_ASSERT(ok() && offset < length_);
    if (contiguous()) [[likely]]
      return {data() + offset, length_ - offset};
    return piece_of_list(offset);
  }
  /// Whether all of the range is one run.
  [[nodiscard]] bool contiguous() const { return layout_ == Layout::kContiguous; }
  /// Where the run begins, of a range that is contiguous().
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  [[nodiscard]] Piece piece_of_list(uint64_t offset) const;

  void* memory_ = nullptr;
  uint64_t start_ = 0;  // of a list
  uint64_t length_ = 0;
  Layout layout_ = Layout::kContiguous;
  uint8_t page_shift_ = 0;
  Fault fault_ = Fault::kNone;
  MemoryNature nature_;
};

static_assert(sizeof(Binding) == 32);

}  // namespace uroce::mem
