#pragma once

#include <array>
#include <cstddef>

#include "base/counters/counters.h"
#include "base/values/memory_nature.h"
#include "copy/engine.h"
#include "copy/losses.h"
#include "copy/message_mark.h"

namespace uroce::copy {

/// Bodies that an asynchronous engine copies, in the order in which they were handed over.
class EngineCopies {
 public:
  static constexpr size_t kMax = 128;        // under way
  static constexpr size_t kBytesMin = 1024;  // what is shorter is copied sooner than handed over

  /// All or nothing; none is owned.
  struct Offload {
    Engine* engine = nullptr;
    Patience* patience = nullptr;
    Counters* counters = nullptr;
  };
  explicit EngineCopies(const Offload& offload);

  /// There is an engine.
  [[nodiscard]] bool enabled() const { return natures_ != 0; }
  /// There is an engine, and it may write to such memory.
  [[nodiscard]] bool may_take(MemoryNature nature) const { return (nature.bits() & natures_) != 0; }
  [[nodiscard]] bool under_way() const { return count_ > 0; }

  /// False: it is the CPU's after all. `mark`: of the packet, which is lost if the copy fails.
  [[gnu::cold]] bool hand_over(std::byte* to, const std::byte* from, size_t length, const MessageMark& mark,
                               size_t tails_before);
  /// True when copies are under way.
  bool start() {
    if (count_ == 0) return false;
    offload_.engine->start();
    return true;
  }
  /// True when none is under way any more. Those that failed are among `losses` then.
  bool poll(Losses& losses);
  /// Until none is under way, or the patience has ended.
  void wait(Losses& losses);
  /// The engine is stopped for good, and what it has not done is lost.
  void give_up(Losses& losses);
  /// The engine is stopped for good, and what it has not done is not reported.
  void abandon();

 private:
  struct Copy {
    MessageMark mark;
    size_t tails_before;
  };
  void stop(bool overdue);

  uint32_t natures_ = 0;  // bit of MemoryNature that the engine may write to; 0: there is none
  size_t count_ = 0;      // handed over, of the burst ...
  size_t ended_ = 0;      // ... and of these, have ended
  const Offload offload_;
  std::array<Copy, kMax> copy_;
};

}  // namespace uroce::copy
