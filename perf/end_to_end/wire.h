#pragma once

#include <cstdint>
#include <string>

#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {

/// Both ends of a wire inside the process, and traffic from the near one to the far one, or by READs the
/// other way. What turns the far end may be another thread.
class Wire {
 public:
  explicit Wire(const Traffic& traffic);

  /// Turns the near end for `operations`, from the first to the last completion; rounded up to whole batches.
  /// `far_end` is called each time.
  template <typename FarEnd>
  void run(uint64_t operations, FarEnd far_end) {
    for (const uint64_t end = completed_ + operations; completed_ < end;) {
      for (; posted_ < end && posted_ - completed_ < traffic_.outstanding && may_post();
           posted_ += traffic_.batch)
        near_.post(far_);
      far_end(*this);
      completed_ += near_.poll().completed;
    }
  }

  /// Posts what may be and polls the near end once; how many operations that completed.
  uint64_t step() {
    for (; posted_ - completed_ < traffic_.outstanding && may_post(); posted_ += traffic_.batch)
      near_.post(far_);
    return drain();
  }
  /// All that was posted is complete.
  [[nodiscard]] bool is_idle() const { return posted_ == completed_; }
  /// Polls the near end once, without posting; how many operations that completed.
  uint64_t drain() {
    const uint64_t found = near_.poll().completed;
    completed_ += found;
    return found;
  }

  void turn_far_end() {
    received_ += far_.poll().received;
    for (; received_ >= traffic_.batch; received_ -= traffic_.batch) far_.post_receives();
  }

  /// From now on the sources hold what they have not held before. While no thread runs.
  void new_data();
  /// Everything sent since new_data() is there. While no thread runs.
  void verify();

 private:
  /// In turns no queue pair gets ahead of the others.
  [[nodiscard]] bool may_post() const { return !traffic_.random_order || near_.has_room(); }

  const Traffic traffic_;
  const bool read_;
  RcEnd near_;
  RcEnd far_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint32_t received_ = 0;
  uint64_t seed_ = 0;
  uint64_t fresh_ = 0;
};

/// "write", "read" or "send". Throws Failure.
Operation operation_of(const std::string& name);

}  // namespace uroce::perf
