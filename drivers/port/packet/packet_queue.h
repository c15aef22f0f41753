#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "drivers/port/buffer_pool.h"
#include "drivers/port/kernel/kernel_interface.h"
#include "drivers/port/packet/arrived_segments.h"
#include "drivers/port/packet/gso_header.h"
#include "drivers/port/packet/gso_peers.h"
#include "drivers/port/packet/identifications.h"
#include "drivers/port/packet/receive_ring.h"
#include "drivers/port/packet/roce_headers.h"
#include "port/port.h"

namespace uroce::drivers {

/// A packet socket that one poller turns: a ring to receive from, and one sendmmsg for each burst, in which
/// frames of one flow become one GSO frame where the peer takes them.
class PacketQueue final : public port::PortQueue {
 public:
  struct Place {
    int socket = -1;  // closed by the queue
    const KernelInterface* interface = nullptr;
    bool gso = false;  // the socket has PACKET_VNET_HDR
  };

  explicit PacketQueue(const Place& place) : place_(place), segments_(pool_, identifications_) {}
  ~PacketQueue() override;
  PacketQueue(const PacketQueue&) = delete;
  PacketQueue& operator=(const PacketQueue&) = delete;

  [[nodiscard]] ReceiveRing& ring() { return ring_; }

  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length, .handle = frame.handle};
  }
  [[nodiscard]] bool prefers_long_bursts() const override { return true; }
  [[nodiscard]] uint64_t dropped() const override;
  [[nodiscard]] uint64_t transmit_calls() const override {
    return __atomic_load_n(&transmit_calls_, __ATOMIC_RELAXED);
  }

 private:
  static constexpr size_t kBurst = 64;

  /// One message of a sendmmsg call: frames that go as one.
  struct Message {
    GsoHeader gso{};
    uint8_t frames = 1;
    uint32_t header_bytes = 0;  // of a GSO frame
    std::array<std::byte, RoceHeaders::kIpv6> headers;
  };

  size_t send_burst(std::span<const port::TxFrame> frames);
  /// How many frames at the front go as one GSO frame, with headers of `header_bytes`; 1: the first alone.
  [[nodiscard]] size_t run_length(std::span<const port::TxFrame> frames, uint32_t header_bytes) const;
  iovec* add_single(Message& message, const port::TxFrame& frame, uint32_t header_bytes, iovec* to);
  iovec* add_run(Message& message, std::span<const port::TxFrame> run, iovec* to);
  /// Gives the frames of a run the numbers that the kernel gives its segments, or takes them away again.
  void renumber(std::span<const port::TxFrame> run, uint32_t header_bytes);
  /// Decides what becomes of a burst of which the kernel took nothing; returns how many of its frames are
  /// gone.
  size_t refused(std::span<const port::TxFrame> frames, const Message& first, int error);

  const Place place_;
  bool sends_gso_ = place_.gso;
  uint64_t transmit_calls_ = 0;               // written by the poller, read by anyone
  mutable std::atomic<uint64_t> no_room_{0};  // frames; any thread that reads the kernel's count adds it
  ReceiveRing ring_;
  BufferPool pool_;
  GsoPeers peers_;
  Identifications identifications_;
  ArrivedSegments segments_;
  std::array<Message, kBurst> messages_;
  std::array<mmsghdr, kBurst> calls_{};
  std::array<iovec, 3 * kBurst> parts_{};
};

}  // namespace uroce::drivers
