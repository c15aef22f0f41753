#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/psn.h"
#include "copy/kind.h"

namespace uroce::copy {

/// Which message a tail ends, in the terms of whoever placed it; handed back when the tail is lost.
struct MessageMark {
  enum class Kind : uint8_t { kSend, kWrite, kRead };

  void* owner = nullptr;
  Kind kind = Kind::kWrite;
  bool reported = false;     // a completion of its own was or will be pushed ...
  uint32_t completions = 0;  // ... at or behind this position of its completion queue's lane
  Psn psn;                   // of the packet that ends it
  uint32_t msn = 0;          // before the message
  uint64_t wr_id = 0;
};

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
/// The memory was resolved by the caller, but its owner may have unmapped, truncated or protected it all the
/// same. A body that meets such memory says so at once. A tail is lost at commit(), which notes its mark and
/// leaves out the owner's later tails of the same direction, and goes on with those of others. Whoever calls
/// commit() looks at losses() before anything of those messages becomes visible. Bytes placed before the
/// missing page stay.
///
/// One thread.
class Placer {
 public:
  static constexpr size_t kTailsMax = 64;
  static constexpr size_t kTailBytes = 64;  // most bytes of a tail
  static constexpr size_t kRangesMax = 64;  // uncommitted ranges; the next one causes a commit

  /// A kind that this CPU lacks is taken for kAuto (configurations are checked with find_kind()).
  explicit Placer(Kind kind);

  /// Bytes of a message that are not its end. False: some of the memory is gone.
  bool place(std::byte* to, const std::byte* from, size_t length, bool cold);
  /// The final bytes of a message. False: some of the body's memory is gone, and the tail will not be placed.
  bool place_last(std::byte* to, const std::byte* from, size_t length, bool cold,
                  const MessageMark& mark = {});

  void commit();
  [[nodiscard]] bool dirty() const { return tails_ > 0 || streamed_; }

  /// The first lost tail of each owner and direction since forget_losses(), in the order in which they were
  /// placed.
  [[nodiscard]] std::span<const MessageMark> losses() const { return {loss_.data(), losses_}; }
  void forget_losses() { losses_ = 0; }

 private:
  struct Tail {
    std::byte* to;
    const std::byte* from;
    uint32_t length;
    MessageMark mark;
  };
  struct Range {
    uintptr_t begin;
    uintptr_t end;
  };
  void reserve(const std::byte* to, size_t length);
  [[nodiscard]] bool overlaps(Range range) const;
  bool body(std::byte* to, const std::byte* from, size_t length, bool cold);
  void store(const Tail& tail);
  [[nodiscard]] bool lost_before(const MessageMark& mark) const;

  const KindRow* kind_;
  bool streamed_ = false;
  size_t tails_ = 0;
  size_t ranges_ = 0;
  size_t losses_ = 0;
  Range hull_{UINTPTR_MAX, 0};  // of all ranges: most placements are outside it and need no closer look
  std::array<Tail, kTailsMax> tail_;
  std::array<Range, kRangesMax> range_;  // all uncommitted destinations; neighbours are joined
  std::array<MessageMark, kTailsMax> loss_;
};

}  // namespace uroce::copy
