#include "copy/placer.h"

#include <immintrin.h>

#include <algorithm>
#include <cassert>

#include "copy/guarded_copy.h"
#include "copy/kernels.h"

namespace uroce::copy {
namespace {

/// Streaming stores pay from here on: below, the two edges and the fence cost more than they save.
constexpr size_t kStreamedMin = 512;

/// The bytes of the message's last cache line, or all of a message that is not longer than a tail: so the
/// body of a long one ends with a whole line.
size_t tail_length(const std::byte* to, size_t length) {
  if (length <= Placer::kTailBytes) return length;
  return (reinterpret_cast<uintptr_t>(to) + length - 1) % Placer::kTailBytes + 1;
}

}  // namespace

Placer::Placer(Kind kind) : kind_(find_kind(kind)) {
  if (kind_ == nullptr) kind_ = find_kind(Kind::kAuto);
}

bool Placer::place(std::byte* to, const std::byte* from, size_t length, bool cold) {
  if (length == 0) return true;
  reserve(to, length);
  return body(to, from, length, cold);
}

bool Placer::place_last(std::byte* to, const std::byte* from, size_t length, bool cold,
                        const MessageMark& mark) {
  if (length == 0) return true;
  if (tails_ == kTailsMax) commit();
  reserve(to, length);
  const size_t tail = tail_length(to, length);
  const size_t before = length - tail;
  if (before > 0 && !body(to, from, before, cold)) return false;
  tail_[tails_++] = {to + before, from + before, static_cast<uint32_t>(tail), mark};
  return true;
}

void Placer::commit() {
  if (streamed_) _mm_sfence();
  // The compiler must not move a body's ordinary stores down between the tails' either; the CPU does not.
  asm volatile("" : : : "memory");
  for (size_t i = 0; i < tails_; ++i) store(tail_[i]);
  asm volatile("" : : : "memory");
  streamed_ = false;
  tails_ = 0;
  ranges_ = 0;
  hull_ = {UINTPTR_MAX, 0};
}

void Placer::store(const Tail& tail) {
  if (losses_ > 0 && lost_before(tail.mark)) [[unlikely]]
    return;
  if (guarded_copy_to(copy_ascending, tail.to, tail.from, tail.length)) [[likely]]
    return;
  // There is room: callers take note of losses before they place the next packet, which has but one tail.
  assert(losses_ < loss_.size());
  loss_[losses_++] = tail.mark;
}

/// A message behind a lost one must not be seen either. Requests and READ responses are two rows of messages.
bool Placer::lost_before(const MessageMark& mark) const {
  return std::ranges::any_of(losses(), [&](const MessageMark& lost) {
    return lost.owner == mark.owner &&
           (lost.kind == MessageMark::Kind::kRead) == (mark.kind == MessageMark::Kind::kRead);
  });
}

/// Notes a destination, after a commit if one stands in the way.
void Placer::reserve(const std::byte* to, size_t length) {
  const auto begin = reinterpret_cast<uintptr_t>(to);
  const Range range{begin, begin + length};
  if (overlaps(range)) commit();
  hull_ = {std::min(hull_.begin, range.begin), std::max(hull_.end, range.end)};
  if (ranges_ > 0 && range_[ranges_ - 1].end == range.begin) {
    range_[ranges_ - 1].end = range.end;
    return;
  }
  if (ranges_ == kRangesMax) {
    commit();
    hull_ = range;
  }
  range_[ranges_++] = range;
}

bool Placer::overlaps(Range range) const {
  if (range.end <= hull_.begin || hull_.end <= range.begin) return false;
  for (size_t i = 0; i < ranges_; ++i) {
    if (range.begin < range_[i].end && range_[i].begin < range.end) return true;
  }
  return false;
}

bool Placer::body(std::byte* to, const std::byte* from, size_t length, bool cold) {
  const bool streaming = cold && length >= kStreamedMin;
  streamed_ = streamed_ || (streaming ? kind_->cold_streams : kind_->hot_streams);
  return guarded_copy_to(streaming ? kind_->cold : kind_->hot, to, from, length);
}

}  // namespace uroce::copy
