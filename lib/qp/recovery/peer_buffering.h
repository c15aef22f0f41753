#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::qp {

/// Whether the peer buffers out-of-order packets, as its ACKs show: the ACK of a packet that was sent again
/// alone then covers more than that packet.
///
/// Decision: a peer that buffers nothing gets go-back-N. Three attempts in a row show that; afterwards one
/// loss of 16 is an attempt, because peers change with their software and paths. Cost: such an attempt takes
/// a round trip more than going back at once.
class PeerBuffering {
 public:
  void reset() { *this = {}; }

  /// True: the peer was seen to buffer.
  [[nodiscard]] bool seen() const { return seen_; }
  /// A packet is missing. False: sending it alone has failed too often to be tried now.
  [[nodiscard]] bool may_attempt() {
    return attempts_failed_ < kAttemptsMax || ++losses_ % kLossesPerAttempt == 0;
  }
  /// An attempt has succeeded: an ACK covers what was behind the packet that went alone.
  void confirm() {
    seen_ = true;
    attempts_failed_ = 0;
  }
  /// An attempt has failed: what was behind the packet that went alone is missing, too.
  void refute() {
    seen_ = false;
    attempts_failed_ = static_cast<uint8_t>(std::min(attempts_failed_ + 1u, kAttemptsMax));
  }
  /// So many packets one behind the other are not lost at a peer that buffers.
  [[nodiscard]] uint32_t gaps_max() const { return seen_ ? kGapsMax : 1; }

  /// Gaps in a row that are filled alone at most.
  static constexpr uint32_t kGapsMax = 3;

 private:
  static constexpr uint32_t kAttemptsMax = 3;
  static constexpr uint32_t kLossesPerAttempt = 16;

  bool seen_ = false;
  uint8_t attempts_failed_ = 0;  // in a row
  uint8_t losses_ = 0;           // since kAttemptsMax of them, modulo 256
};

}  // namespace uroce::qp
