#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/contract.h"
#include "base/values/memory_nature.h"
#include "copy/engine_copies.h"
#include "copy/kind.h"
#include "copy/losses.h"
#include "copy/message_mark.h"
#include "copy/uncommitted_ranges.h"

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
/// An engine, if there is one, copies long bodies of memory that is the stack's own, asynchronously. Then a
/// burst is not complete when everything has been placed: the caller calls start_copies(), keeps sources,
/// destinations and everything that hangs on them as they are until copies_ended() says so, and only then
/// calls commit(). A commit() that comes earlier, whatever causes it, waits.
///
/// The memory was resolved by the caller, but its owner may have unmapped, truncated or protected it all the
/// same. A body that meets such memory says so at once. A tail is lost at commit(), which notes its mark and
/// leaves out the owner's later tails of the same direction, and goes on with those of others. commit()
/// returns the losses, which are looked at before anything of those messages becomes visible. Bytes placed
/// before the missing page stay. A copy that fails in the engine is a loss, too, of the packet that it
/// belongs to.
///
/// One thread.
class Placer {
 public:
  static constexpr size_t kTailsMax = 64;
  static constexpr size_t kTailBytes = 64;                       // most bytes of a tail
  static constexpr size_t kRangesMax = UncommittedRanges::kMax;  // the next one causes a commit
  static constexpr size_t kCopiesMax = EngineCopies::kMax;
  static constexpr size_t kCopiedMin = EngineCopies::kBytesMin;

  using Offload = EngineCopies::Offload;

  /// A kind that this CPU lacks is taken for kAuto (configurations are checked with find_kind()).
  explicit Placer(Kind kind) : Placer(kind, Offload{}) {}
  Placer(Kind kind, const Offload& offload);
  ~Placer() { abandon(); }
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  /// Bytes of a message that are not its end. False: some of the memory is gone.
  bool place(std::byte* to, const std::byte* from, size_t length, MemoryNature nature);
  /// The final bytes of a message. False: some of the body's memory is gone, and the tail will not be placed.
  bool place_last(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
    // Most messages that come in great numbers are all tail, and come one behind the other. (0: not at all.)
    if (length - 1 >= kTailBytes) [[unlikely]]
      return place_long(to, from, length, nature);
    keep_tail(to, from, length);
    return true;
  }
  /// What belongs to the message whose end is placed next: it is written here before, and not handed over,
  /// for it is large beside a short message. Of a message that is not at its end it is needed if
  /// marks_bodies().
  [[nodiscard]] MessageMark& next_mark() { return next_->mark; }
  /// There is an engine, which may lose any packet.
  [[nodiscard]] bool marks_bodies() const { return copies_.enabled(); }

  /// Returns losses().
  std::span<const MessageMark> commit() {
    UROCE_ASSERT(!ranges_.empty() || !dirty());
    if (!ranges_.empty()) commit_all();
    return losses();
  }
  /// Something waits for that.
  [[nodiscard]] bool dirty() const { return next_ != tail_.data() || streamed_ || copying(); }

  /// True when copies are under way.
  bool start_copies() { return copies_.start(); }
  [[nodiscard]] bool copying() const { return copies_.under_way(); }
  /// Asks the engine: true when none is under way any more.
  bool copies_ended() { return copies_.poll(losses_); }
  /// The engine is not to be waited for any longer: it is stopped, what it has not done is lost, and from now
  /// on the CPU copies.
  void give_up() { copies_.give_up(losses_); }
  /// The end: nothing of what is not committed will be, and nothing is touched any more.
  void abandon();

  /// The first loss of each owner and direction since forget_losses().
  [[nodiscard]] std::span<const MessageMark> losses() const { return losses_.marks(); }
  void forget_losses() { losses_.forget(); }

 private:
  struct Tail {
    std::byte* to;
    uint32_t length;
    const std::byte* from;
    MessageMark mark;
  };
  /// How bodies are copied.
  struct Way {
    CopyFunction copy;
    bool streams;
  };
  /// A commit if something stands in the way of what comes there.
  void make_way(Range range) {
    if (next_ == &tail_.back() || !ranges_.is_beyond(range)) [[unlikely]]
      look_closer(range);
  }
  /// What lies there has no room beside what is uncommitted, or else belongs to that from now on.
  void claim(Range range);
  /// The range is claimed already.
  void push_tail(std::byte* to, const std::byte* from, size_t length) {
    next_->to = to;
    next_->length = static_cast<uint32_t>(length);
    next_->from = from;
    ++next_;
  }
  /// The whole of a short message.
  void keep_tail(std::byte* to, const std::byte* from, size_t length) {
    const Range range = Range::of(to, length);
    make_way(range);
    ranges_.widen(range);
    push_tail(to, from, length);
  }
  bool place_long(std::byte* to, const std::byte* from, size_t length, MemoryNature nature);
  void commit_all();
  void look_closer(Range range);
  void commit_early();
  [[nodiscard]] bool overlaps(Range range) const;
  [[nodiscard]] size_t tails_before(const Tail* tail) const {
    return static_cast<size_t>(tail - tail_.data());
  }
  [[gnu::always_inline]] inline bool body(std::byte* to, const std::byte* from, size_t length,
                                          MemoryNature nature);

  // What a short message touches first.
  Tail* next_ = nullptr;  // the end of those in tail_
  bool streamed_ = false;
  UncommittedRanges ranges_;  // also of tails
  Losses losses_;
  EngineCopies copies_;
  Way hot_{};
  Way cold_{};                            // of what is long enough
  std::array<Tail, kTailsMax + 1> tail_;  // and room for next_mark()
};

}  // namespace uroce::copy
