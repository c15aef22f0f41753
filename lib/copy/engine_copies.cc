// Decision: an engine writes only to memory that the stack has allocated (a bit in the region entry), by
// virtual addresses. It has no guard against memory that its owner unmaps.
#include "copy/engine_copies.h"

#include <algorithm>
#include <span>

namespace uroce::copy {

EngineCopies::EngineCopies(const Offload& offload) : offload_(offload) {
  if (offload.engine != nullptr) natures_ = MemoryNature(false, true).bits();
}

bool EngineCopies::hand_over(std::byte* to, const std::byte* from, size_t length, const MessageMark& mark,
                             size_t tails_before) {
  if (length < kBytesMin || count_ == kMax) return false;
  if (!offload_.engine->submit(to, from, static_cast<uint32_t>(length))) return false;
  copy_[count_++] = {mark, tails_before};
  return true;
}

bool EngineCopies::poll(Losses& losses) {
  std::array<Engine::Outcome, 32> outcomes;
  while (ended_ < count_) {
    const size_t count =
        offload_.engine->ended(std::span(outcomes).first(std::min(outcomes.size(), count_ - ended_)));
    if (count == 0) return false;
    for (const Engine::Outcome outcome : std::span(outcomes).first(count)) {
      const bool copied = outcome == Engine::Outcome::kCopied;
      if (!copied) losses.note(copy_[ended_].mark, copy_[ended_].tails_before);
      offload_.counters->add(copied ? Counter::kEngineCopies : Counter::kEngineFailed);
      ++ended_;
    }
  }
  count_ = ended_ = 0;
  return true;
}

void EngineCopies::wait(Losses& losses) {
  start();
  offload_.patience->begin();
  while (!poll(losses)) {
    if (!offload_.patience->wait()) return give_up(losses);
  }
}

void EngineCopies::give_up(Losses& losses) {
  if (poll(losses)) return;
  stop(true);
  offload_.counters->add(Counter::kEngineFailed, count_ - ended_);
  for (; ended_ < count_; ++ended_) losses.note(copy_[ended_].mark, copy_[ended_].tails_before);
  count_ = ended_ = 0;
}

void EngineCopies::abandon() {
  if (enabled()) stop(false);
  count_ = ended_ = 0;
}

void EngineCopies::stop(bool overdue) {
  offload_.engine->stop(overdue);
  natures_ = 0;
}

}  // namespace uroce::copy
