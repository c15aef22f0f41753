#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "copy/placer.h"
#include "mem/region_table.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// Most segments of one work request.
inline constexpr uint32_t kSegmentsMax = 32;

/// A run of bytes of a message, resolved into memory as a whole before the first of them is touched. Meant to
/// be kept and reused: the array is deliberately not cleared. Bindings die with the turn.
class ResolvedRange {
 public:
  void clear() { count_ = 0; }
  /// Adds the run if it may be used, and says whether it may.
  bool add(const mem::Binding& binding) {
    bindings_[count_] = binding;
    count_ += binding.ok() ? 1 : 0;
    return binding.ok();
  }

  /// Copies everything to `to`. False: some of the memory is gone.
  [[nodiscard]] bool gather(std::byte* to) const;
  /// It is contiguous, as most is.
  [[nodiscard]] bool in_one_piece() const {
    return count_ == 1 && bindings_[0].piece(0).length == bindings_[0].length();
  }
  /// The same as gather() of what lies in one piece, by a copy that takes it into `sum`.
  [[nodiscard]] bool gather(std::byte* to, copy::SummingCopy copy, void* sum) const;
  /// Places `payload`, as long as the range, into the memory. `ends`: these are the message's final bytes.
  /// `mark` counts then, or if the placer marks bodies. False: some of the memory is gone.
  [[nodiscard]] bool place(copy::Placer& placer, std::span<const std::byte> payload,
                           const copy::MessageMark& mark, bool ends) const;
  /// The memory, when it is a whole word that can be accessed at once, else nullptr.
  [[nodiscard]] std::byte* word() const;
  /// Stores `bytes`, as long as the range and few, at once and in ascending order; after a commit. False:
  /// some of the memory is gone.
  [[nodiscard]] bool store(std::span<const std::byte> bytes) const;

 private:
  std::array<mem::Binding, kSegmentsMax> bindings_;
  size_t count_ = 0;
};

/// Keys as the segments of a queue pair's work requests use them.
struct LocalKeys {
  const mem::RegionTable& regions;
  mem::KeyUser user;
  mem::Access needed;
};

/// A position in a work request's segment list. Moves forward in constant time per packet; a move back starts
/// over from the first segment.
class SegmentCursor {
 public:
  void restart() { *this = {}; }

  /// Resolves bytes [offset, offset + length) of the list, which holds that many. False when a segment's key,
  /// rights or bounds do not allow it. Segments of length 0 are not looked at.
  bool resolve(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
               const LocalKeys& keys, ResolvedRange& range) {
    // Most lists have one segment, where there is nothing to look for.
    if (segments.size() != 1 || length == 0 || offset + length > segments[0].length) [[unlikely]]
      return resolve_list(segments, offset, length, keys, range);
    range.clear();
    return range.add(
        keys.regions.resolve(segments[0].lkey, keys.user, segments[0].address + offset, length, keys.needed));
  }

 private:
  bool resolve_list(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
                    const LocalKeys& keys, ResolvedRange& range);
  void seek(std::span<const queue::Segment> segments, uint64_t offset);

  uint64_t base_ = 0;  // bytes of all segments before index_
  uint32_t index_ = 0;
};

}  // namespace uroce::qp
