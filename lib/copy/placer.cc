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

/// The bytes of the last cache line of a message that is longer than a tail: so its body ends with a whole
/// line.
size_t tail_length(const std::byte* to, size_t length) {
  return (reinterpret_cast<uintptr_t>(to) + length - 1) % Placer::kTailBytes + 1;
}

/// Of one owner, and in one direction: requests and READ responses are two rows of messages.
bool same_row(const MessageMark& a, const MessageMark& b) {
  return a.owner == b.owner && (a.kind == MessageMark::Kind::kRead) == (b.kind == MessageMark::Kind::kRead);
}

}  // namespace

Placer::Placer(Kind kind, const Offload& offload) : offload_(offload) {
  next_ = tail_.data();
  last_range_ = range_.data();
  range_[0] = kNowhere;
  const KindRow* const found = find_kind(kind);
  const KindRow& row = found != nullptr ? *found : *find_kind(Kind::kAuto);
  hot_ = {row.hot, row.hot_streams};
  cold_ = {row.cold, row.cold_streams};
  if (offload.engine != nullptr) engine_natures_ = MemoryNature(false, true).bits();
}

inline bool Placer::body(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if ((nature.bits() & engine_natures_) != 0 && hand_over(to, from, length)) [[unlikely]]
    return true;
  const Way& way = nature.cold() && length >= kStreamedMin ? cold_ : hot_;
  streamed_ |= way.streams;
  return guarded_copy_to(way.copy, to, from, length);
}

inline void Placer::claim(Range range) {
  make_way(range);
  if (last_range_->end == range.begin) {
    last_range_->end = range.end;
  } else {
    if (last_range_ == &range_.back()) [[unlikely]]
      commit_early();
    *++last_range_ = range;
  }
  hull_ = hull_.with(range);
}

bool Placer::place(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if (length == 0) return true;
  claim(range_of(to, length));
  return body(to, from, length, nature);
}

bool Placer::place_long(std::byte* to, const std::byte* from, size_t length, MemoryNature nature) {
  if (length == 0) return true;
  claim(range_of(to, length));
  const size_t before = length - tail_length(to, length);
  if (!body(to, from, before, nature)) return false;
  push_tail(to + before, from + before, length - before);
  return true;
}

void Placer::commit() {
  if (copies_ > 0) [[unlikely]]
    wait_for_copies();
  if (streamed_) _mm_sfence();
  // The compiler must not move a body's ordinary stores down between the tails' either; the CPU does not.
  asm volatile("" : : : "memory");
  for (const Tail* tail = tail_.data(); tail != next_; ++tail) {
    if (losses_ > 0 && lost_before(*tail)) [[unlikely]]
      continue;
    if (!guarded_store_ascending(tail->to, tail->from, tail->length)) [[unlikely]]
      lose(*tail);
  }
  asm volatile("" : : : "memory");
  streamed_ = false;
  next_ = tail_.data();
  last_range_ = range_.data();
  hull_ = kNowhere;
  // Whatever comes now is behind them.
  if (losses_ > 0) [[unlikely]]
    std::fill_n(tails_before_loss_.begin(), losses_, 0);
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
bool Placer::lost_before(const Tail& tail) const {
  for (size_t i = 0; i < losses_; ++i) {
    if (same_row(loss_[i], tail.mark) && tails_before_loss_[i] <= tails_before(&tail)) return true;
  }
  return false;
}

void Placer::look_closer(Range range) {
  if (next_ == &tail_.back() || overlaps(range)) commit_early();
}

/// Before a packet whose mark may have been written.
void Placer::commit_early() {
  const MessageMark mark = next_mark();
  commit();
  next_mark() = mark;
}

bool Placer::overlaps(Range range) const {
  if (!range.meets(hull_)) return false;
  for (const Tail* tail = tail_.data(); tail != next_; ++tail) {
    if (range.meets(range_of(tail->to, tail->length))) return true;
  }
  for (const Range* other = range_.data(); other != last_range_;) {
    if (range.meets(*++other)) return true;
  }
  return false;
}

/// False: it is the CPU's after all.
bool Placer::hand_over(std::byte* to, const std::byte* from, size_t length) {
  if (length < kCopiedMin || copies_ == kCopiesMax) return false;
  if (!offload_.engine->submit(to, from, static_cast<uint32_t>(length))) return false;
  copy_[copies_++] = {next_mark(), tails_before(next_)};
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
  next_ = tail_.data();
  copies_ = ended_ = 0;
  streamed_ = false;
}

void Placer::stop(bool overdue) {
  offload_.engine->stop(overdue);
  engine_natures_ = 0;
}

}  // namespace uroce::copy
