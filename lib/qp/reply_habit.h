#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::qp {

/// Whether the application answers the messages of a queue pair at once: by posting to the same queue pair
/// with its very next call, or with the next one after that in which its own last message was acknowledged,
/// as many programs wait for that first. Only then does it pay to hold an ACK back for the reply, and only of
/// a queue pair that has done so many times in a row it may be expected: a program that leaves without
/// another call, or sleeps, has then acknowledged what it was told of. What is told of is a completion, or
/// bytes that a WRITE has placed: each has a habit of its own, for a program may answer the one and not the
/// other.
///
/// Calls are counted by Turn::call, modulo 2^32; 0 is none.
class ReplyHabit {
 public:
  static constexpr uint32_t kRepliesMin = 64;  // in a row

  /// A message was received in the turn of that call, and the application will hear of it. True: a reply is
  /// to be expected.
  bool told(uint64_t call) {
    const auto its_number = static_cast<uint32_t>(call);
    if (told_in_ != its_number) {
      if (told_in_ != 0) replies_ = 0;
      told_in_ = its_number;
    }
    return replies_ >= kRepliesMin;
  }

  /// Calls are counted anew, as the queue pair has moved to another poller.
  void forget_call() { told_in_ = 0; }

  /// There was no reply in time.
  void disappointed() { replies_ /= 2; }

  /// The call numbered `call` posts to the queue pair; or its doorbell is found after that call, because
  /// another thread was in a turn. What it had sent was last acknowledged in the turn of `acknowledged_in`.
  void posted(uint64_t call, uint32_t acknowledged_in) {
    if (told_in_ == 0) return;
    // Neither is of a later call.
    const auto its_number = static_cast<uint32_t>(call);
    const bool at_once = std::min(its_number - told_in_, its_number - acknowledged_in) <= 1;
    replies_ = at_once ? replies_ + (replies_ < kRepliesMin ? 1 : 0) : 0;
    told_in_ = 0;
  }

 private:
  uint32_t told_in_ = 0;  // the call, modulo 2^32, whose message has had no reply yet
  uint32_t replies_ = 0;  // at once, in a row
};

}  // namespace uroce::qp
