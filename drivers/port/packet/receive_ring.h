#pragma once

#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/values/result.h"

namespace uroce::drivers {

/// What the kernel tells of a frame beside its bytes.
struct ArrivedFrame {
  std::span<const std::byte> bytes;  // in the ring
  std::optional<uint16_t> vlan_tci;  // of a tag that the kernel has taken out
  uint16_t segment_bytes = 0;        // of a GSO frame, what each segment has behind UDP
  bool udp = false;                  // a GSO frame is one of UDP
  bool checksum_is_left = false;     // the UDP checksum is none yet
};

/// The frames that a packet socket has received: a ring that the kernel fills (TPACKET_V2). One poller's.
class ReceiveRing {
 public:
  ReceiveRing() = default;
  ~ReceiveRing();
  ReceiveRing(const ReceiveRing&) = delete;
  ReceiveRing& operator=(const ReceiveRing&) = delete;

  /// Before the socket is bound. `frame_bytes`: the longest frame. `tells_gso`: the socket has
  /// PACKET_VNET_HDR. An error is the reason alone.
  Status make(int socket, uint32_t frame_bytes, bool tells_gso);

  /// The frame that has waited longest; false: there is none. Its bytes are there until next().
  bool front(ArrivedFrame& frame);
  void next();
  /// Frames that were cut off.
  [[nodiscard]] uint64_t cut_off() const { return __atomic_load_n(&cut_off_, __ATOMIC_RELAXED); }

 private:
  [[nodiscard]] std::byte* place(uint32_t number) const {
    return memory_ + size_t{number / per_block_} * block_bytes_ + size_t{number % per_block_} * frame_bytes_;
  }
  void count_cut_off() { __atomic_store_n(&cut_off_, cut_off_ + 1, __ATOMIC_RELAXED); }

  std::byte* memory_ = nullptr;
  uint32_t block_bytes_ = 0;
  uint32_t frame_bytes_ = 0;  // of a place in the ring
  uint32_t per_block_ = 1;
  uint32_t frames_ = 0;
  uint32_t first_ = 0;
  bool tells_gso_ = false;
  uint64_t cut_off_ = 0;  // written by the poller, read by anyone
};

}  // namespace uroce::drivers
