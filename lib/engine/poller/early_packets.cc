#include "engine/poller/early_packets.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>
#include <utility>

#include "base/tables/memory_calls.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"

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

/// By PSN modulo their number. What is to come lies less than that apart; a packet with another PSN than the
/// one that its place is looked at for was passed over by requests that take several.
struct EarlySlots {
  std::array<EarlyPacket*, EarlyPackets::kOfOneMax> places;
  uint32_t count;  // that are taken

  static_assert(std::has_single_bit(EarlyPackets::kOfOneMax));
  [[nodiscard]] EarlyPacket*& of(Psn psn) { return places[psn.value() % EarlyPackets::kOfOneMax]; }
};

/// What is reserved with the poller; all zero at first, as mapped.
struct EarlyPackets::Memory {
  std::array<EarlySlots, kListsMax> slots;
  std::array<EarlyPacket, kMax> packets;
};

EarlyPackets::~EarlyPackets() {
  if (memory_ != nullptr) unmap_memory(memory_, sizeof(Memory));
}

bool EarlyPackets::reserve() {
  if (memory_ == nullptr)
    memory_ =
        reinterpret_cast<Memory*>(map_memory(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_NORESERVE));
  return memory_ != nullptr;
}

EarlyPacket* EarlyPackets::allocate() {
  if (free_ != nullptr) return std::exchange(free_, free_->next);
  return used_ == kMax ? nullptr : &memory_->packets[used_++];
}

bool EarlyPackets::keep(EarlyList& of, const wire::Packet& packet) {
  if (packet.payload.size() > kPayloadMax || !reserve()) return false;
  EarlySlots* const slots = of.slots != nullptr ? of.slots
                            : free_slots_ != 0
                                ? &memory_->slots[static_cast<size_t>(std::countr_zero(free_slots_))]
                                : nullptr;
  if (slots == nullptr) return false;
  const Psn psn = packet.headers.bth.psn;
  EarlyPacket*& place = slots->of(psn);
  if (place != nullptr && place->psn() == psn) return true;
  if (place != nullptr) remove(of, place, free_);
  EarlyPacket* const kept = allocate();
  if (kept == nullptr) return false;
  std::construct_at(&kept->packet, packet);
  std::ranges::copy(packet.payload, kept->payload.begin());
  kept->packet.payload = std::span(kept->payload).first(packet.payload.size());
  kept->packet.ip_packet = {};
  kept->packet.headers.bth.ack_request = false;
  place = kept;
  if (slots->count++ == 0) {
    of.slots = slots;
    free_slots_ &= ~(uint64_t{1} << (slots - memory_->slots.data()));
  }
  return true;
}

/// Moves the packet at `place` to the front of the list `to`.
void EarlyPackets::remove(EarlyList& of, EarlyPacket*& place, EarlyPacket*& to) {
  UROCE_ASSERT(of.slots != nullptr && of.slots->count > 0);
  EarlyPacket* const removed = std::exchange(place, nullptr);
  removed->next = std::exchange(to, removed);
  if (--of.slots->count > 0) return;
  free_slots_ |= uint64_t{1} << (of.slots - memory_->slots.data());
  of.slots = nullptr;
}

const wire::Packet* EarlyPackets::find(EarlyList& of, Psn expected) {
  if (of.empty()) return nullptr;
  EarlyPacket*& place = of.slots->of(expected);
  if (place == nullptr) return nullptr;
  if (place->psn() == expected) return &place->packet;
  remove(of, place, free_);
  return nullptr;
}

std::optional<Psn> EarlyPackets::first_after(const EarlyList& of, Psn due) const {
  if (of.empty()) return std::nullopt;
  for (uint32_t ahead = 1; ahead < kOfOneMax; ++ahead) {
    const Psn psn = due + ahead;
    const EarlyPacket* const kept = of.slots->of(psn);
    if (kept != nullptr && kept->psn() == psn) return psn;
  }
  return std::nullopt;
}

void EarlyPackets::take(EarlyList& of, Psn expected) {
  EarlyPacket*& place = of.slots->of(expected);
  UROCE_ASSERT(place != nullptr && place->psn() == expected);
  remove(of, place, taken_);
}

void EarlyPackets::drop(EarlyList& of, Psn psn) {
  if (of.empty()) return;
  EarlyPacket*& place = of.slots->of(psn);
  if (place != nullptr && place->psn() == psn) remove(of, place, free_);
}

uint32_t EarlyPackets::count(const EarlyList& of) { return of.empty() ? 0 : of.slots->count; }

void EarlyPackets::forget(EarlyList& of) {
  if (of.empty()) return;
  for (EarlyPacket*& place : of.slots->places) {
    if (place == nullptr) continue;
    remove(of, place, free_);
    if (of.empty()) return;
  }
}

void EarlyPackets::recycle() {
  while (taken_ != nullptr) {
    EarlyPacket* const first = std::exchange(taken_, taken_->next);
    first->next = std::exchange(free_, first);
  }
}

}  // namespace uroce::engine
