#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::qp {

/// Predicts whether the application replies at once to the next message that a queue pair delivers. A reply
/// is at once if the application's very next call posts it to the same queue pair. It also is if it comes
/// with the call that found the application's own last message acknowledged, or with the one after that.
///
/// Calls have the numbers of Turn::call, modulo 2^32; 0 is none.
class PiggybackPredictor {
 public:
  /// A reply is predicted after so many at once in a row. With fewer, the exchange by which a program sets up
  /// its connections would count; a wrong prediction delays one ACK, whatever the number.
  static constexpr uint32_t kRepliesMin = 64;

  /// A message was delivered in the turn of that call. True: a reply at once is predicted.
  bool delivered(uint64_t call) {
    const auto its_number = static_cast<uint32_t>(call);
    if (delivered_in_ != its_number) {
      if (delivered_in_ != 0) replies_ = 0;
      delivered_in_ = its_number;
    }
    return replies_ >= kRepliesMin;
  }

  /// Calls are counted anew, because the queue pair has moved to another poller.
  void forget_call() { delivered_in_ = 0; }

  /// The reply that was predicted did not come in time.
  void timed_out() { replies_ /= 2; }

  /// The call numbered `call` posts to the queue pair; or its doorbell is found after that call, because
  /// another thread was in a turn. A message of the application was last acknowledged in the turn of
  /// `acknowledged_in`.
  void posted(uint64_t call, uint32_t acknowledged_in) {
    if (delivered_in_ == 0) return;
    // Neither is of a later call.
    const auto its_number = static_cast<uint32_t>(call);
    const bool at_once = std::min(its_number - delivered_in_, its_number - acknowledged_in) <= 1;
    replies_ = at_once ? replies_ + (replies_ < kRepliesMin ? 1 : 0) : 0;
    delivered_in_ = 0;
  }

 private:
  uint32_t delivered_in_ = 0;  // the call, modulo 2^32, whose message has had no reply yet
  uint32_t replies_ = 0;       // at once, in a row
};

}  // namespace uroce::qp
