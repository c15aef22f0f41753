#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "copy/kind.h"

namespace uroce::copy {

/// Puts the payloads of one burst into registered memory so that a CPU watching that memory sees what RDMA
/// hardware would show it: the last byte of a message after all its other bytes, and messages in PSN order.
///
/// Bodies are copied at once, in any order of bytes, possibly with non-temporal stores. The tail of a message
/// (its last bytes) waits until commit(), which puts one sfence after the bodies (if any was non-temporal)
/// and then stores the tails in order, each with ordinary stores in ascending order, the final store inside
/// one cache line. Sources must stay readable until commit(). commit() comes before any CQE is published, any
/// ACK leaves, and any READ of the same memory; placements that overlap an uncommitted one cause it by
/// themselves.
///
/// One thread. Never fails; the memory was resolved by the caller.
class Placer {
 public:
  static constexpr size_t kTailsMax = 64;
  static constexpr size_t kTailBytes = 64;  // most bytes of a tail
  static constexpr size_t kRangesMax = 64;  // uncommitted ranges; the next one causes a commit

  /// A kind that this CPU lacks is taken for kAuto (configurations are checked with find_kind()).
  explicit Placer(Kind kind);

  /// Bytes of a message that are not its end.
  void place(std::byte* to, const std::byte* from, size_t length, bool cold);
  /// The final bytes of a message.
  void place_last(std::byte* to, const std::byte* from, size_t length, bool cold);

  void commit();
  [[nodiscard]] bool dirty() const { return tails_ > 0 || streamed_; }

 private:
  struct Tail {
    std::byte* to;
    const std::byte* from;
    uint32_t length;
  };
  struct Range {
    uintptr_t begin;
    uintptr_t end;
  };
  void reserve(const std::byte* to, size_t length);
  [[nodiscard]] bool overlaps(Range range) const;
  void body(std::byte* to, const std::byte* from, size_t length, bool cold);

  const KindRow* kind_;
  bool streamed_ = false;
  size_t tails_ = 0;
  size_t ranges_ = 0;
  Range hull_{UINTPTR_MAX, 0};  // of all ranges: most placements are outside it and need no closer look
  std::array<Tail, kTailsMax> tail_;
  std::array<Range, kRangesMax> range_;  // all uncommitted destinations; neighbours are joined
};

}  // namespace uroce::copy
