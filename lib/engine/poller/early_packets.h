#pragma once

#include <cstddef>
#include <cstdint>

#include "base/sequence_number.h"
#include "wire/packet.h"

namespace uroce::engine {

struct EarlyPacket;

/// The packets of one queue pair that came early, in PSN order. Its poller's.
struct EarlyList {
  EarlyPacket* first = nullptr;
  EarlyPacket* last = nullptr;
  uint32_t count = 0;

  [[nodiscard]] bool empty() const { return first == nullptr; }
};

/// Packets that came before one that is missing: copies, so that no buffer of the port waits with them. They
/// are received when the missing one has come, as if the network had kept the order. How many there are is
/// bounded, of a queue pair and in all; what finds no room is lost as on the wire. The memory is reserved
/// with the poller, and touched only when something is lost.
///
/// One poller, in its turns.
class EarlyPackets {
 public:
  static constexpr uint32_t kMax = 1024;
  static constexpr uint32_t kOfOneMax = 256;

  EarlyPackets() = default;
  ~EarlyPackets();
  EarlyPackets(const EarlyPackets&) = delete;
  EarlyPackets& operator=(const EarlyPackets&) = delete;

  /// Keeps a copy of `packet`, which was found intact. False: there is no room. One with its PSN that is kept
  /// already stays. The copy asks for no ACK: the packet that was missing does, or the peer sends all of them
  /// again, and is confused by an ACK of what it has not repeated yet (Linux's rxe falls silent for ever when
  /// the next answer is lost).
  bool keep(EarlyList& of, const wire::Packet& packet);
  /// The first of them if it has the PSN `expected`, else nullptr. Those before it have come again meanwhile,
  /// and are dropped.
  const wire::Packet* find(EarlyList& of, Psn expected);
  /// What find() returned was received. It stays readable until recycle().
  void take(EarlyList& of);
  /// None of them will be received.
  void forget(EarlyList& of);
  /// What was taken is not read any more.
  void recycle();

 private:
  EarlyPacket* allocate();
  void drop_first(EarlyList& of, EarlyPacket*& to);

  EarlyPacket* memory_ = nullptr;  // kMax of them, of which ...
  uint32_t used_ = 0;              // ... so many have been touched
  EarlyPacket* free_ = nullptr;    // a list
  EarlyPacket* taken_ = nullptr;   // likewise
};

}  // namespace uroce::engine
