#pragma once

#include <linux/if_xdp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/process/uninherited_descriptor.h"
#include "base/values/result.h"
#include "drivers/port/xdp/frame_memory.h"

namespace uroce::drivers {

/// One ring that the kernel and a poller share: one of them produces, the other one consumes.
template <typename Entry>
struct XdpRing {
  uint32_t* producer = nullptr;
  uint32_t* consumer = nullptr;
  uint32_t* flags = nullptr;
  Entry* entries = nullptr;

  Entry& at(uint32_t number, uint32_t size) const { return entries[number & (size - 1)]; }
};

// Of Linux 6.6, whose headers the build may not have (<linux/if_xdp.h>): frames in several pieces.
inline constexpr uint16_t kXdpUseSg = 1 << 4;
inline constexpr uint32_t kXdpPacketContinues = 1 << 0;

/// An AF_XDP socket with its four rings, on one queue of an interface. The poller's, except where said.
///
/// A descriptor of a ring is a piece of a frame, and lies in one chunk. Only with long_frames are there
/// frames of more than one: all but the last are marked (kXdpPacketContinues).
///
/// A forked child has neither socket nor rings: the queue is free when this process has closed it.
class XdpSocket {
 public:
  static constexpr uint32_t kRingSize = 2048;  // of each ring
  /// What rings hold at most, and as many again in the hands of the stack.
  static constexpr size_t kFrames = 3 * size_t{kRingSize};

  struct Place {
    unsigned interface_index = 0;
    uint16_t queue = 0;
    bool generic = false;      // no driver takes part: frames are copied
    bool long_frames = false;  // as the memory has them; the kernel has_long_frames()
  };

  /// Whether this kernel's sockets carry frames longer than one chunk (Linux 6.6). It changes nothing.
  static bool has_long_frames();

  /// `first` is the port's first socket, which has given the memory to the kernel; null: this one is it.
  /// Errors are the reason alone.
  static Result<std::unique_ptr<XdpSocket>> open(const Place& place, FrameMemory& memory,
                                                 const XdpSocket* first);
  ~XdpSocket();
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] bool zero_copy() const;
  /// Frames that the kernel had no room for. Any thread.
  [[nodiscard]] uint64_t dropped() const;
  /// System calls in which frames were sent. Any thread.
  [[nodiscard]] uint64_t transmit_calls() const {
    return __atomic_load_n(&transmit_calls_, __ATOMIC_RELAXED);
  }

  /// Gives the kernel free chunks to receive into for those that came back, many at a time.
  void fill(FreeChunks& chunks);
  /// Received pieces of `count` frames at most: calls `take` with the descriptor of each, which says whether
  /// a frame is complete with it.
  template <typename Take>
  void receive(size_t count, Take take);
  /// Takes back the chunks of what was sent.
  void collect(FreeChunks& chunks);
  /// How many frames can be sent without a wait.
  [[nodiscard]] size_t room();
  /// All of it lies in one frame of the memory. Within room().
  void send(uint64_t address, uint32_t length);
  /// What was sent becomes the kernel's, which may leave some of it for the next time.
  void flush();
  /// Lets a driver go on that waits to be called.
  void wake_receiver();

 private:
  XdpSocket(FrameMemory& memory, UninheritedDescriptor socket)
      : memory_(memory), socket_(std::move(socket)) {}
  Status share_memory();
  Status make_rings();
  Status bind_to(const Place& place, const XdpSocket* first);
  template <typename Entry>
  Status map_ring(XdpRing<Entry>& ring, const xdp_ring_offset& offset, uint64_t where);
  [[nodiscard]] bool all_sent() const;

  FrameMemory& memory_;
  const UninheritedDescriptor socket_;
  struct Mapping {
    void* first = nullptr;
    size_t bytes = 0;
  };
  Mapping mappings_[4];
  size_t mapped_ = 0;
  bool wakes_receiver_ = true;
  XdpRing<uint64_t> fill_;
  XdpRing<uint64_t> completed_;
  XdpRing<xdp_desc> received_;
  XdpRing<xdp_desc> sent_;
  // Our own side's numbers, so that the kernel's lines are read and written once per burst.
  uint32_t filled_ = 0;
  uint32_t unfilled_ = kRingSize;  // chunks that the kernel had from us and gave back, or never had
  uint32_t collected_ = 0;
  uint32_t taken_ = 0;
  uint32_t queued_ = 0;
  uint64_t transmit_calls_ = 0;  // written by the poller, read by anyone
};

template <typename Take>
void XdpSocket::receive(size_t count, Take take) {
  // Pairs with the kernel's release of the descriptors.
  const uint32_t end = __atomic_load_n(received_.producer, __ATOMIC_ACQUIRE);
  if (end == taken_ || count == 0) return;
  const uint32_t begin = taken_;
  while (taken_ != end && count > 0)
    if (take(received_.at(taken_++, kRingSize))) --count;
  // Pairs with the kernel's acquire before it writes there again.
  __atomic_store_n(received_.consumer, taken_, __ATOMIC_RELEASE);
  unfilled_ += taken_ - begin;
}

}  // namespace uroce::drivers
