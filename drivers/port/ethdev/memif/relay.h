#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "drivers/port/ethdev/gate.h"
#include "drivers/port/ethdev/memif/watched_socket.h"

namespace uroce::drivers {

/// The control connections of a memif, with us in the middle: each goes from the peer to us and from us to
/// net_memif in this process, and messages are handed on unread.
///
/// When a connection ends, and upon some messages, net_memif unmaps the rings and frees what leads to them on
/// EAL's interrupt thread, without a word to a poller that is inside a burst. So the poller would fault, or
/// write to what has taken that memory since, or to a descriptor that has been closed. Here nothing of a
/// peer reaches the driver before the pollers have taken what it left them, and are out; they are let in
/// again when the driver has handled it and its link is up.
///
/// Everything on EAL's interrupt thread, as the driver's own handler.
class MemifRelay {
 public:
  /// A device whose pollers are kept out. `settled` is called when the driver has handled all that came, and
  /// may open the gate.
  void attach(Gate& gate, std::function<void()> settled);
  /// Its pollers stay out.
  void detach(const Gate& gate);

  [[nodiscard]] bool empty() const { return devices_.empty(); }

  /// Joins a peer and the driver; takes both descriptors.
  void join(int peer, int driver);
  /// All that is under way ends at once. For when the driver has closed its ends.
  void cut();

  /// Called every now and then: tells the devices if all is settled, which is not always seen otherwise.
  void look();

  /// The driver has accepted every connection that was made to it, or given it up.
  [[nodiscard]] bool accepted() const;

 private:
  struct Pair {
    std::unique_ptr<WatchedSocket> peer;  // empty: has gone
    std::unique_ptr<WatchedSocket> driver;
    bool spoken = false;      // the driver has sent something
    uint32_t unread_for = 0;  // looks in which it had not read what was sent to it
  };
  using Place = std::list<Pair>::iterator;
  struct Device {
    Gate* gate;
    std::function<void()> settled;
  };

  void settle();
  void let_finish() const;
  void keep_out();
  void from_peer(Place pair);
  void from_driver(Place pair);
  void end_peer(Place pair);

  std::list<Pair> pairs_;
  std::list<Device> devices_;
};

}  // namespace uroce::drivers
