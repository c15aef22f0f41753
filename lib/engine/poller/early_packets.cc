#include "engine/poller/early_packets.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "base/contract.h"
#include "base/identifiers.h"
#include "base/memory_calls.h"

namespace uroce::engine {

namespace {
constexpr size_t kPayloadMax = path_mtu_bytes(PathMtu::k4096);
}

struct EarlyPacket {
  wire::Packet packet;  // whose payload is the one below; nothing else of it refers to memory
  EarlyPacket* next = nullptr;
  std::array<std::byte, kPayloadMax> payload;

  [[nodiscard]] Psn psn() const { return packet.headers.bth.psn; }
};

EarlyPackets::~EarlyPackets() {
  if (memory_ != nullptr) unmap_memory(memory_, kMax * sizeof(EarlyPacket));
}

EarlyPacket* EarlyPackets::allocate() {
  if (free_ != nullptr) return std::exchange(free_, free_->next);
  if (memory_ == nullptr) {
    memory_ = reinterpret_cast<EarlyPacket*>(
        map_memory(nullptr, kMax * sizeof(EarlyPacket), PROT_READ | PROT_WRITE, MAP_NORESERVE));
    if (memory_ == nullptr) return nullptr;
  }
  return used_ == kMax ? nullptr : &memory_[used_++];
}

bool EarlyPackets::keep(EarlyList& of, const wire::Packet& packet) {
  if (of.count == kOfOneMax || packet.payload.size() > kPayloadMax) return false;
  const Psn psn = packet.headers.bth.psn;
  // Nearly always behind the last one.
  EarlyPacket** place = of.last != nullptr && psn.after(of.last->psn()) ? &of.last->next : &of.first;
  while (*place != nullptr && (*place)->psn().before(psn)) place = &(*place)->next;
  if (*place != nullptr && (*place)->psn() == psn) return true;
  EarlyPacket* const kept = allocate();
  if (kept == nullptr) return false;
  std::construct_at(&kept->packet, packet);
  std::ranges::copy(packet.payload, kept->payload.begin());
  kept->packet.payload = std::span(kept->payload).first(packet.payload.size());
  kept->packet.ip_packet = {};
  kept->packet.headers.bth.ack_request = false;
  kept->next = std::exchange(*place, kept);
  if (kept->next == nullptr) of.last = kept;
  ++of.count;
  return true;
}

/// Moves it to the front of the list `to`.
void EarlyPackets::drop_first(EarlyList& of, EarlyPacket*& to) {
  UROCE_ASSERT(!of.empty() && of.count > 0);
  EarlyPacket* const first = std::exchange(of.first, of.first->next);
  if (of.first == nullptr) of.last = nullptr;
  --of.count;
  first->next = std::exchange(to, first);
}

const wire::Packet* EarlyPackets::find(EarlyList& of, Psn expected) {
  while (!of.empty() && of.first->psn().before(expected)) drop_first(of, free_);
  return !of.empty() && of.first->psn() == expected ? &of.first->packet : nullptr;
}

void EarlyPackets::take(EarlyList& of) { drop_first(of, taken_); }

void EarlyPackets::forget(EarlyList& of) {
  while (!of.empty()) drop_first(of, free_);
}

void EarlyPackets::recycle() {
  while (taken_ != nullptr) {
    EarlyPacket* const first = std::exchange(taken_, taken_->next);
    first->next = std::exchange(free_, first);
  }
}

}  // namespace uroce::engine
