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

/// Of one owner, and in one direction: requests and READ responses are two rows of messages.
bool same_row(const MessageMark& a, const MessageMark& b) {
  return a.owner == b.owner && (a.kind == MessageMark::Kind::kRead) == (b.kind == MessageMark::Kind::kRead);
}

}  // namespace

Placer::Placer(Kind kind, const Offload& offload) : kind_(find_kind(kind)), offload_(offload) {
  if (kind_ == nullptr) kind_ = find_kind(Kind::kAuto);
  if (offload.engine != nullptr) engine_natures_ = MemoryNature(false, true).bits();
}

inline bool Placer::body(std::byte* to, const std::byte* from, size_t length, MemoryNature nature,
                         const MessageMark* mark) {
  if ((nature.bits() & engine_natures_) != 0 && hand_over(to, from, length, mark)) [[unlikely]]
    return true;
  const bool streaming = nature.cold() && length >= kStreamedMin;
  streamed_ = streamed_ || (streaming ? kind_->cold_streams : kind_->hot_streams);
  return guarded_copy_to(streaming ? kind_->cold : kind_->hot, to, from, length);
}

bool Placer::place(std::byte* to, const std::byte* from, size_t length, MemoryNature nature,
                   const MessageMark* mark) {
  if (length == 0) return true;
  reserve(to, length);
  return body(to, from, length, nature, mark);
}

bool Placer::place_last(std::byte* to, const std::byte* from, size_t length, MemoryNature nature,
                        const MessageMark& mark) {
  if (length == 0) return true;
  if (tails_ == kTailsMax) commit();
  reserve(to, length);
  const size_t tail = tail_length(to, length);
  const size_t before = length - tail;
  if (before > 0 && !body(to, from, before, nature, &mark)) return false;
  tail_[tails_++] = {to + before, from + before, static_cast<uint32_t>(tail), mark};
  return true;
}

void Placer::commit() {
  if (copies_ > 0) [[unlikely]]
    wait_for_copies();
  if (streamed_) _mm_sfence();
  // The compiler must not move a body's ordinary stores down between the tails' either; the CPU does not.
  asm volatile("" : : : "memory");
  for (size_t i = 0; i < tails_; ++i) store(i);
  asm volatile("" : : : "memory");
  streamed_ = false;
  tails_ = 0;
  ranges_ = 0;
  hull_ = {UINTPTR_MAX, 0};
  // Whatever comes now is behind them.
  if (losses_ > 0) [[unlikely]]
    std::fill_n(tails_before_loss_.begin(), losses_, 0);
}

void Placer::store(size_t index) {
  if (losses_ > 0 && lost_before(index)) [[unlikely]]
    return;
  const Tail& tail = tail_[index];
  if (guarded_copy_to(copy_ascending, tail.to, tail.from, tail.length)) [[likely]]
    return;
  note_loss(tail.mark, index);
}

void Placer::note_loss(const MessageMark& mark, size_t tails_before) {
  for (size_t i = 0; i < losses_; ++i) {
    if (!same_row(loss_[i], mark)) continue;
    // Copies are known to be lost before the tails that were placed earlier are stored.
    if (tails_before < tails_before_loss_[i]) {
      loss_[i] = mark;
      tails_before_loss_[i] = tails_before;
    }
    return;
  }
  // There is room: callers take note of losses before they place the next packet.
  assert(losses_ < loss_.size());
  tails_before_loss_[losses_] = tails_before;
  loss_[losses_++] = mark;
}

/// A message behind a lost one must not be seen either, nor the end of the lost one itself.
bool Placer::lost_before(size_t index) const {
  for (size_t i = 0; i < losses_; ++i) {
    if (same_row(loss_[i], tail_[index].mark) && tails_before_loss_[i] <= index) return true;
  }
  return false;
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

/// False: it is the CPU's after all.
bool Placer::hand_over(std::byte* to, const std::byte* from, size_t length, const MessageMark* mark) {
  if (length < kCopiedMin || copies_ == kCopiesMax) return false;
  if (!offload_.engine->submit(to, from, static_cast<uint32_t>(length))) return false;
  assert(mark != nullptr);
  copy_[copies_++] = {*mark, tails_};
  return true;
}

bool Placer::start_copies() {
  if (copies_ == 0) [[likely]]
    return false;
  offload_.engine->start();
  return true;
}

bool Placer::copies_ended() {
  std::array<Engine::Outcome, 32> outcomes;
  while (ended_ < copies_) {
    const size_t count =
        offload_.engine->ended(std::span(outcomes).first(std::min(outcomes.size(), copies_ - ended_)));
    if (count == 0) return false;
    for (const Engine::Outcome outcome : std::span(outcomes).first(count)) {
      const bool copied = outcome == Engine::Outcome::kCopied;
      if (!copied) note_loss(copy_[ended_].mark, copy_[ended_].tails_before);
      offload_.counters->add(copied ? Counter::kEngineCopies : Counter::kEngineFailed);
      ++ended_;
    }
  }
  copies_ = ended_ = 0;
  return true;
}

void Placer::wait_for_copies() {
  start_copies();
  offload_.patience->begin();
  while (!copies_ended()) {
    if (!offload_.patience->wait()) return give_up();
  }
}

void Placer::give_up() {
  if (copies_ended()) return;
  stop(true);
  offload_.counters->add(Counter::kEngineFailed, copies_ - ended_);
  for (; ended_ < copies_; ++ended_) note_loss(copy_[ended_].mark, copy_[ended_].tails_before);
  copies_ = ended_ = 0;
}

void Placer::abandon() {
  if (marks_bodies()) stop(false);
  tails_ = copies_ = ended_ = 0;
}

void Placer::stop(bool overdue) {
  offload_.engine->stop(overdue);
  engine_natures_ = 0;
}

}  // namespace uroce::copy
