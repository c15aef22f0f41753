#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/values/sequence_number.h"
#include "qp/connection/send_window.h"
#include "wire/packet.h"

namespace uroce::engine {

struct EarlyPacket;
struct EarlySlots;

/// The packets of one queue pair that came early. Its poller's.
struct EarlyList {
  EarlySlots* slots = nullptr;  // while there are any

  [[nodiscard]] bool empty() const { return slots == nullptr; }
};

/// Packets that came before one that is missing: copies, so that no buffer of the port waits with them. They
/// are received when the missing one has come, as if the network had kept the order; requests of a peer that
/// sends them once more all the same, when it has passed them. How many there are is
/// bounded, of a queue pair and in all, as is the number of queue pairs that have any; what finds no room is
/// lost as on the wire. Each is found by its PSN, so a peer gains nothing by the order in which it sends. The
/// memory is reserved with the poller, and touched only when something is lost.
///
/// Belongs to one poller, and is used in its turns.
class EarlyPackets {
 public:
  static constexpr uint32_t kMax = 4096;
  static constexpr uint32_t kOfOneMax = qp::kKeptAhead;
  static constexpr uint32_t kListsMax = 64;

  EarlyPackets() = default;
  ~EarlyPackets();
  EarlyPackets(const EarlyPackets&) = delete;
  EarlyPackets& operator=(const EarlyPackets&) = delete;

  /// Keeps a copy of `packet`, which was found intact, and is less than kOfOneMax ahead of the expected one.
  /// False: there is no room. One with its PSN that is kept already stays. The copy asks for no ACK: the
  /// packet that was missing does, or the one that passes it.
  bool keep(EarlyList& of, const wire::Packet& packet);
  /// The one that has the PSN `expected`, if it is kept.
  const wire::Packet* find(EarlyList& of, Psn expected);
  /// The lowest PSN behind `due` that is kept, if any is.
  std::optional<Psn> first_after(const EarlyList& of, Psn due) const;
  /// What find() returned for `expected` was received. It stays readable until recycle().
  void take(EarlyList& of, Psn expected);
  /// The one with that PSN, if it is kept, has come once more.
  void drop(EarlyList& of, Psn psn);
  /// How many packets the list has.
  [[nodiscard]] static uint32_t count(const EarlyList& of);
  /// Drops all packets of the list.
  void forget(EarlyList& of);
  /// Packets that were taken are not read any more.
  void recycle();

 private:
  struct Memory;

  bool reserve();
  EarlyPacket* allocate();
  void remove(EarlyList& of, EarlyPacket*& place, EarlyPacket*& to);

  Memory* memory_ = nullptr;
  uint32_t used_ = 0;                 // packets that have been touched
  uint64_t free_slots_ = UINT64_MAX;  // a bit for each
  EarlyPacket* free_ = nullptr;       // a list
  EarlyPacket* taken_ = nullptr;      // likewise
};

}  // namespace uroce::engine
