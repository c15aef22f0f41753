// Decision: tails wait for the burst's one sfence. A fence for each packet halves the rate of placement in
// cold regions. Cost: sources must live until the commit.
#include "copy/placer.h"

#include <immintrin.h>

#include <algorithm>

#include "copy/guarded_copy.h"
#include "copy/kernels.h"

namespace uroce::copy {
namespace {

/// Streaming stores pay from here on: below, the two edges and the fence cost more than they save.
constexpr size_t kStreamedMin = 512;

/// The bytes of the last cache line of a message that is longer than a tail: so its body ends with a whole
/// line.
size_t tail_length(const std::byte* to, size_t length) {
  return (reinterpret_cast<uintptr_t>(to) + length - 1) % Placer::kTailBytes + 1;
}

}  // namespace

Placer::Placer(Kind kind, const Offload& offload) : copies_(offload) {
  next_ = tail_.data();
  const KindRow* const found = find_kind(kind);
  const KindRow& row = found != nullptr ? *found : *find_kind(Kind::kAuto);
  hot_ = {row.hot, row.hot_streams};
  cold_ = {row.cold, row.cold_streams};
}

inline bool Placer::body(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if (copies_.may_take(nature) && copies_.hand_over(to, from, length, next_mark(), tails_before(next_)))
      [[unlikely]]
    return true;
  const Way& way = nature.cold() && length >= kStreamedMin ? cold_ : hot_;
  streamed_ |= way.streams;
  return guarded_copy_to(way.copy, to, from, length);
}

inline void Placer::claim(Range range) {
  make_way(range);
  if (ranges_.add(range)) [[likely]]
    return;
  commit_early();
  ranges_.add(range);
}

bool Placer::place(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if (length == 0) return true;
  claim(Range::of(to, length));
  return body(to, from, length, nature);
}

bool Placer::place_long(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if (length == 0) return true;
  claim(Range::of(to, length));
  const size_t before = length - tail_length(to, length);
  if (!body(to, from, before, nature)) return false;
  push_tail(to + before, from + before, length - before);
  return true;
}

void Placer::commit_all() {
  if (copying()) [[unlikely]]
    copies_.wait(losses_);
  if (streamed_) _mm_sfence();
  // The compiler must not move a body's ordinary stores down between the tails' either; the CPU does not.
  asm volatile("" : : : "memory");
  for (const Tail* tail = tail_.data(); tail != next_; ++tail) {
    if (!losses_.empty() && losses_.before(tail->mark, tails_before(tail))) [[unlikely]]
      continue;
    if (!guarded_store_ascending(tail->to, tail->from, tail->length)) [[unlikely]]
      losses_.note(tail->mark, tails_before(tail));
  }
  asm volatile("" : : : "memory");
  streamed_ = false;
  next_ = tail_.data();
  ranges_.clear();
  losses_.tails_committed();
}

void Placer::look_closer(Range range) {
  if (next_ == &tail_.back() || overlaps(range)) commit_early();
}

/// Before a packet whose mark may have been written.
void Placer::commit_early() {
  const MessageMark mark = next_mark();
  (void)commit();  // the caller looks at losses()
  next_mark() = mark;
}

bool Placer::overlaps(Range range) const {
  if (!ranges_.in_hull(range)) return false;
  for (const Tail* tail = tail_.data(); tail != next_; ++tail) {
    if (range.meets(Range::of(tail->to, tail->length))) return true;
  }
  return ranges_.meets(range);
}

void Placer::abandon() {
  copies_.abandon();
  next_ = tail_.data();
  streamed_ = false;
}

}  // namespace uroce::copy
