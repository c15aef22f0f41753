#pragma once

#include <cstdint>
#include <vector>

#include "base/values/sequence_number.h"
#include "wire/opcode.h"

namespace uroce::decode {

/// A request packet that was seen on its way.
struct SentPacket {
  int64_t time_ns = 0;
  uint32_t psn = UINT32_MAX;  // none
  uint32_t icrc = 0;
  uint32_t payload_bytes = 0;
  uint16_t ip_identification = 0;
  wire::Opcode opcode;
};

/// The newest request packets of a requester, by PSN. It grows with what is sent, up to kSentPacketsMax;
/// older ones give way.
class SentPackets {
 public:
  static constexpr size_t kSentPacketsMax = 1024;

  void put(const SentPacket& packet) {
    ++put_;
    if (put_ >= slots_.size() && slots_.size() < kSentPacketsMax) grow();
    slots_[packet.psn & (slots_.size() - 1)] = packet;
  }
  /// Null: not seen, or too long ago.
  [[nodiscard]] SentPacket* find(Psn psn) {
    if (slots_.empty()) return nullptr;
    SentPacket& slot = slots_[psn.value() & (slots_.size() - 1)];
    return slot.psn == psn.value() ? &slot : nullptr;
  }

 private:
  void grow() {
    std::vector<SentPacket> larger(slots_.empty() ? 16 : slots_.size() * 2);
    for (const SentPacket& packet : slots_)
      if (packet.psn != UINT32_MAX) larger[packet.psn & (larger.size() - 1)] = packet;
    slots_.swap(larger);
  }

  std::vector<SentPacket> slots_;
  size_t put_ = 0;
};

}  // namespace uroce::decode
