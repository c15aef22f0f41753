#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/contract.h"
#include "copy/guarded_copy.h"
#include "copy/placer.h"
#include "mem/keys/region_table.h"
#include "mem/keys/remembered_key.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// Most segments of one work request.
inline constexpr uint32_t kSegmentsMax = 32;

/// Keys as the segments of a queue pair's work requests use them.
struct LocalKeys {
  const mem::RegionTable& regions;
  const mem::KeyUser& user;
  mem::Access needed;
};

/// A run of bytes of a message, resolved into memory as a whole before the first of them is touched. Meant to
/// be kept and reused: the array is deliberately not cleared. Bindings die with the turn.
class ResolvedRange {
 public:
  void clear() {
    count_ = 0;
    in_one_piece_ = false;
  }
  /// Adds the run if it may be used, and says whether it may.
  bool add(const mem::Binding& binding) {
    if (!binding.ok()) [[unlikely]]
      return false;
    UROCE_ASSERT(count_ < kSegmentsMax);
    in_one_piece_ = count_ == 0 && binding.contiguous();
    bindings_[count_++] = binding;
    return true;
  }
  /// Becomes [address, address + length) of a key's region if that may be used, and says whether it may.
  bool become(const LocalKeys& keys, MemoryKey key, uint64_t address, uint64_t length) {
    return become_at_once(keys, key, address, length) ||
           become_in_order({keys.regions, keys.user, keys.needed}, key, address, length);
  }
  /// The most frequent case of become(): memory in one piece. False: it is another case, or may not be used.
  bool become_at_once(const LocalKeys& keys, MemoryKey key, uint64_t address, uint64_t length) {
    const mem::RegionEntry::Found found =
        keys.regions.resolve_at_once(key, keys.user.domain, address, length, keys.needed);
    if (!found.right) [[unlikely]]
      return false;
    bindings_[0] = {found.data, length, found.nature};
    count_ = 1;
    in_one_piece_ = true;
    return true;
  }

  /// Copies everything to `to`. False: some of the memory is gone.
  [[nodiscard]] bool gather(std::byte* to) const {
    if (!in_one_piece()) [[unlikely]]
      return gather_pieces(to);
    return copy::guarded_read(to, bindings_[0].data(), bindings_[0].length());
  }
  /// The range is contiguous, as most are.
  [[nodiscard]] bool in_one_piece() const { return in_one_piece_; }
  /// Where the range begins, when it is in_one_piece().
  [[nodiscard]] std::byte* data() const {
    UROCE_ASSERT(in_one_piece_);
    return bindings_[0].data();
  }
  /// Places `payload`, as long as the range, into the memory. `ends`: these are the message's final bytes.
  /// False: some of the memory is gone. The placer has the packet's mark if it needs one.
  [[nodiscard]] bool place(copy::Placer& placer, std::span<const std::byte> payload, bool ends) const {
    if (!ends || !in_one_piece()) [[unlikely]]
      return place_pieces(placer, payload, ends);
    UROCE_ASSERT(bindings_[0].length() == payload.size());
    return placer.place_last(bindings_[0].data(), payload.data(), payload.size(), bindings_[0].nature());
  }
  /// The memory, when it is a whole word that can be accessed at once, else nullptr.
  [[nodiscard]] std::byte* word() const;
  /// Stores `bytes`, as long as the range and few, at once and in ascending order; after a commit. False:
  /// some of the memory is gone.
  [[nodiscard]] bool store(std::span<const std::byte> bytes) const;

 private:
  [[gnu::cold]] bool become_in_order(const LocalKeys& keys, MemoryKey key, uint64_t address, uint64_t length);
  [[nodiscard]] bool gather_pieces(std::byte* to) const;
  [[nodiscard]] bool place_pieces(copy::Placer& placer, std::span<const std::byte> payload, bool ends) const;

  uint8_t count_ = 0;
  bool in_one_piece_ = false;  // one, and that is contiguous
  static_assert(kSegmentsMax <= UINT8_MAX);
  std::array<mem::Binding, kSegmentsMax> bindings_;
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
    if (segments.size() == 1 && offset + length <= segments[0].length &&
        range.become_at_once(keys, segments[0].lkey, segments[0].address + offset, length)) [[likely]]
      return true;
    // Made anew here, so that `keys` need not be in memory before.
    return resolve_list(segments, offset, length, {keys.regions, keys.user, keys.needed}, range);
  }
  /// The most frequent case, for callers that need no range then: a list of one segment, as long as the
  /// request, and memory in one piece, which begins there. `key` is for the rights of `keys`. Else ask
  /// resolve().
  [[gnu::always_inline]] static inline mem::RegionEntry::Found resolve_at_once(
      std::span<const queue::Segment> segments, uint64_t offset, uint64_t length, const LocalKeys& keys,
      mem::RememberedKey& key) {
    if (segments.size() != 1) [[unlikely]]
      return {};
    const queue::Segment& only = segments.front();
    return key.resolve_at_once(keys.regions, only.lkey, keys.user.domain, only.address + offset, length);
  }

 private:
  bool resolve_list(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
                    const LocalKeys& keys, ResolvedRange& range);
  void seek(std::span<const queue::Segment> segments, uint64_t offset);

  uint32_t base_ = 0;  // bytes of all segments before index_, which are no more than a message has
  uint32_t index_ = 0;
};

}  // namespace uroce::qp
