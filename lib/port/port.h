#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tables/block_code.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"

namespace uroce::host {
class SharedDevice;
}

namespace uroce::port {

/// A received Ethernet frame (no FCS). Owned by the caller of receive() until it is passed to release().
struct RxFrame {
  // Contiguous. With a body only its beginning and its end are the frame's (frame_body.h).
  std::byte* data = nullptr;
  uint32_t length = 0;
  bool has_icrc = true;    // false: the frame has never left this host, and no ICRC was computed
  BlockCode sender = {};   // the program of this host that sent it: none of a frame from outside, or our own
  void* handle = nullptr;  // the driver's own
  // All of the frame in memory of its sender, which may be changing it; null: `data` has it all.
  const std::byte* body = nullptr;
};

/// A buffer for one frame to send. Owned by the caller of allocate() until transmit() accepts it or free()
/// takes it back.
struct TxFrame {
  std::byte* data = nullptr;
  uint32_t capacity = 0;
  uint32_t length = 0;     // set by the writer
  void* handle = nullptr;  // the driver's own
  bool to_self = false;    // addressed to this port: the engine loops it and the driver never sees it
  bool to_group = false;   // members may be here, too: the engine loops a copy
  bool on_host = false;    // addressed to this port, and to a queue pair of another process of this host
  bool has_icrc = true;    // false: of a frame that stays on this host none was computed
};

/// What a port can carry, derived from the real thing when it was opened.
struct Capabilities {
  std::string description;      // one line for `uroce info`: driver and arguments
  MacAddress mac;               // the port's own; configuration may override it
  uint32_t link_mtu = 1500;     // IP packet bytes, as `ip link` shows it
  std::string link_mtu_reason;  // what keeps it from being larger, in a few words; may be empty
  /// What a NIC does, or could do, besides sending and receiving, a line each; may be empty.
  std::vector<std::string> offloads = {};
  uint32_t frame_bytes_max = 0;  // Ethernet header to end, no FCS
  uint16_t queues = 1;           // receive/transmit queue pairs
  uint16_t queues_max = 1;       // that could have been asked for
  bool in_process = false;       // both ends live in this process (loopback, net_ring)
};

/// Where a poller's frames come from: the queue of its port, or what stands in front of that.
class FrameSource {
 public:
  /// So many frames, the first ones of a burst, are on their way into the cache when receive() returns; those
  /// behind them are left to the code that goes through the burst (short_frame.h).
  static constexpr size_t kPrefetched = 4;
  /// Up to `frames.size()` received frames; never blocks.
  virtual uint16_t receive(std::span<RxFrame> frames) = 0;

 protected:
  ~FrameSource() = default;
};

/// One receive and transmit queue pair. Belongs to one poller: calls come from the thread that turns it.
/// release() takes frames of the port's other queues, too (they may have been handed over). Virtual calls are
/// per burst.
class PortQueue : public FrameSource {
 public:
  virtual ~PortQueue() = default;

  virtual void release(std::span<const RxFrame> frames) = 0;
  /// From now on received frames may have a body (frame_body.h), valid until the next receive().
  virtual void leave_bodies() {}

  /// Fills a prefix of `frames` with empty buffers; fewer than asked when the pool is dry.
  virtual uint16_t allocate(std::span<TxFrame> frames) = 0;
  /// Takes a prefix of `frames`; the rest stays the caller's (queue full).
  virtual uint16_t transmit(std::span<const TxFrame> frames) = 0;
  virtual void free(std::span<const TxFrame> frames) = 0;

  /// A transmitted-to-self frame becomes a received one without leaving the process; the handle stays the
  /// same and is given back through release().
  virtual RxFrame loop(const TxFrame& frame) = 0;

  /// Whether frames in a long burst cost much less than in several short ones.
  [[nodiscard]] virtual bool prefers_long_bursts() const { return false; }
  /// Whether the ICRC of frames that stay on this host is to be computed.
  [[nodiscard]] virtual bool wants_icrc_on_host() const { return true; }
  /// Other processes share the port: a frame for one that takes none does not hold up the others, but is
  /// lost.
  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// On a shared port, whether a turn's frames may be sent to the process of this host that has the queue
  /// pair, without loss; to the link if `to` is none.
  [[nodiscard]] virtual bool has_room(std::optional<QpNumber> /*to*/) { return true; }
  /// On a shared port, false while a turn's datagrams to the process of this host that has the queue pair, or
  /// to the link if `to` is none, are to wait. A process that has made no room for a turn's frames by the end
  /// of a bound holds nothing up any more: what is sent to it is lost, until it has. `now`: of the poller.
  [[nodiscard]] virtual bool takes_datagrams(std::optional<QpNumber> /*to*/, Instant /*now*/) { return true; }

  /// Frames that arrived and could not be handed out: there was no room for them, or they were in more pieces
  /// than fit one buffer. Any thread.
  [[nodiscard]] virtual uint64_t dropped() const { return 0; }
  /// System calls in which frames were sent, where each burst needs one or more. Any thread.
  [[nodiscard]] virtual uint64_t transmit_calls() const { return 0; }
};

/// Whether a peer is at the other end of a port's wire, where a port can tell.
enum class FarEnd : uint8_t { kUnknown, kAway, kConnected };

/// An opened port. Control path: the thread that opened it.
class Port {
 public:
  virtual ~Port() = default;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  /// `index` < capabilities().queues; the same object every time, owned by the port.
  virtual PortQueue& queue(uint16_t index) = 0;
  /// True while the link is up. A software wire whose far end comes and goes (memif, vhost) is up as soon as
  /// our end stands, as a host on a switch is: a missing peer is noticed by its silence. Any thread.
  [[nodiscard]] virtual bool link_up() const = 0;
  /// Mbit/s of the link now; 0: the port cannot tell. Any thread.
  [[nodiscard]] virtual uint32_t link_mbps() const { return 0; }
  /// What link_up() says may change, and gone() may become true. Any thread.
  [[nodiscard]] virtual bool link_changes() const { return false; }
  /// What is behind the port was taken away and does not come back. Any thread.
  [[nodiscard]] virtual bool gone() const { return false; }
  [[nodiscard]] virtual FarEnd far_end() const { return FarEnd::kUnknown; }
  /// The addresses of a port beside the kernel, whenever they may have changed: frames to any other address
  /// are the kernel's. Any thread, one at a time.
  virtual void follow_addresses(std::span<const Gid> /*addresses*/) {}
  /// Descriptors that poll(2) shows as readable while a frame waits to be received, for threads that sleep
  /// until then; each may be of any queue. Empty: the port has none. They are the port's, and open as long as
  /// it is.
  [[nodiscard]] virtual std::vector<int> receive_events() const { return {}; }
  /// A thread is about to wait at the descriptors of receive_events(), and receives once more before it does
  /// so. Any thread, one at a time.
  virtual void arm_events() {}
  /// No thread waits at the descriptors of receive_events() any more: frames need not make them readable. Any
  /// thread, one at a time.
  virtual void disarm_events() {}
  /// The device that several processes share through this port; null: the port is this process's alone.
  [[nodiscard]] virtual host::SharedDevice* shared_device() { return nullptr; }
  /// The futex word at which a thread that turns the port's queues is to sleep, so that other processes can
  /// wake it; null: there is none. Written by this process only.
  [[nodiscard]] virtual std::atomic<uint32_t>* bell() { return nullptr; }
};

}  // namespace uroce::port
