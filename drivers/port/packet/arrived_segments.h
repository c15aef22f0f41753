#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "drivers/port/buffer_pool.h"
#include "drivers/port/packet/gso_peers.h"
#include "drivers/port/packet/identifications.h"
#include "drivers/port/packet/receive_ring.h"
#include "drivers/port/packet/roce_headers.h"
#include "port/port.h"

namespace uroce::drivers {

/// Makes frames in buffers out of what a packet socket has received: one of each frame, or one of each
/// segment of a GSO frame, with the bytes that its sender gave to its port. One poller's.
class ArrivedSegments {
 public:
  ArrivedSegments(BufferPool& pool, Identifications& identifications)
      : pool_(pool), identifications_(identifications) {}

  /// Nothing is left of the last frame.
  [[nodiscard]] bool empty() const { return left_.empty(); }
  /// Takes in the next one, of which nothing may be left, and notes in `peers` what its sender takes. Its
  /// bytes are read until empty().
  void begin(const ArrivedFrame& arrived, GsoPeers& peers);
  /// False: there is no buffer. Unless empty().
  bool take(port::RxFrame& frame);
  /// How many frames fitted no buffer, or were GSO frames of RoCE with a tag. Any thread.
  [[nodiscard]] uint64_t dropped() const { return __atomic_load_n(&dropped_, __ATOMIC_RELAXED); }

 private:
  void begin_gso(const ArrivedFrame& arrived, uint32_t header_bytes);
  void begin_single(const ArrivedFrame& arrived, uint32_t header_bytes, GsoPeers& peers);
  void set_headers(size_t payload_bytes);
  void drop();

  BufferPool& pool_;
  Identifications& identifications_;
  std::span<const std::byte> left_;                          // what no frame was made of yet
  std::array<std::byte, RoceHeaders::kIpv6 + 4> headers_{};  // that stand before it in each
  uint32_t header_bytes_ = 0;
  uint32_t segment_bytes_ = 0;
  const Identifications::Differences* differences_ = nullptr;  // of the segments' ICRCs; null: they are right
  uint16_t identification_ = 0;
  uint32_t number_ = 0;   // of the next segment
  uint64_t dropped_ = 0;  // written by the poller, read by anyone
};

}  // namespace uroce::drivers
