#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/process/descriptor.h"
#include "base/tables/block_code.h"
#include "base/tables/number_block.h"
#include "base/threads/mpsc_ring.h"
#include "base/threads/spsc_ring.h"
#include "base/values/time.h"
#include "host/channel.h"
#include "host/shared_memory.h"

namespace uroce::drivers {

/// Another process that frames go to: a program of this host, or the service.
struct Peer {
  NumberBlock block{0, 0};  // of queue pair numbers
  BlockCode code;           // the same
  uint32_t number = 0;      // of the channel
  host::Mapping memory;     // the far end's
  host::Mapping bell;       // where it is not part of that
  std::unique_ptr<host::Channel> channel;
  bool sent_to = false;        // in the burst that is being sent
  Instant full_since{kNever};  // since datagrams wait for it; kNever: it had room when one was about to go
  bool stalled = false;        // they wait no more: what finds no room is lost
  bool ended = false;          // the process has; what it had sent before is still received
};

/// What the poller of the port hears of the thread that reads what the service tells.
struct PeerChange {
  enum class Kind : uint8_t {
    kReached,  // `peer` has the block from now on
    kRelayed,  // frames for the program with queue pair `asked` go to the service, which passes them on
    kAbsent,   // there is no program with that queue pair
    kGone,     // the program with `block` has ended
    kService,  // `peer` is the service from now on; null: there is none
  };
  Kind kind;
  QpNumber asked = {};
  NumberBlock block{0, 0};
  std::unique_ptr<Peer> peer = nullptr;
};

/// Between the poller of the port and the thread that reads what the service tells. The poller neither makes
/// nor frees a peer.
class PeerExchange {
 public:
  PeerExchange();
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  [[nodiscard]] bool ready() const { return wake_.ok(); }
  /// Becomes readable when the poller asks, or gives back.
  [[nodiscard]] int descriptor() const { return wake_.get(); }

  // The reader.
  /// False: the poller has not taken what was told before.
  bool tell(std::unique_ptr<PeerChange>& change);
  /// A queue pair of the program that the poller wants to reach.
  std::optional<QpNumber> take_question();
  /// A peer that the poller uses no more.
  std::unique_ptr<Peer> take_retired();
  /// Before take_question() and take_retired().
  void clear_wake() const;

  // The poller.
  std::unique_ptr<PeerChange> take_change();
  bool ask(QpNumber queue_pair);
  void retire(std::unique_ptr<Peer> peer);
  /// Any thread.
  void wake() const;

 private:
  static constexpr size_t kWaitingMax = 1024;  // more than there are channels

  const Descriptor wake_;
  SpscRing<PeerChange*> changes_{kWaitingMax};
  SpscRing<QpNumber> questions_{kWaitingMax};
  SpscRing<Peer*> retired_{kWaitingMax};
};

}  // namespace uroce::drivers
