#include "apps/perf/ends/round.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "client/failure.h"
#include "client/pattern.h"

namespace uroce::perf {

namespace {

/// Below, waking other CPUs costs more than they save.
constexpr size_t kParallelBytesMin = 4 << 20;

/// `work(slot)` for each slot; those of large areas on all CPUs, in no order, outside of what is measured.
/// The first Failure that is thrown ends it.
template <typename Work>
void for_each_slot(const Layout& layout, const Work& work) {
  if (layout.area_bytes() < kParallelBytesMin) {
    for (uint32_t slot = 0; slot < layout.slots; ++slot) work(slot);
    return;
  }
  tbb::parallel_for(uint32_t{0}, layout.slots, work);
}

}  // namespace

RoundMemory::RoundMemory(std::span<std::byte> source, std::span<std::byte> target, const Round& round,
                         Role role)
    : round_(round),
      role_(role),
      layout_(round.layout()),
      source_(source.first(layout_.area_bytes())),
      target_(target.first(layout_.area_bytes())) {}

bool RoundMemory::marked() const {
  return round_.reliable() && round_.operation == Operation::kWrite && round_.ping_pong();
}

uint64_t RoundMemory::seed_of(const Phase& phase, Role writer, uint32_t slot) const {
  const uint64_t end = writer == Role::kResponder ? 1 : 0;
  return (phase.seed * 2 + end) * 0x1000003 + slot;
}

void RoundMemory::prepare(const Phase& phase) {
  std::ranges::fill(target_, client::kPoison);
  for_each_slot(layout_, [&](uint32_t slot) {
    client::fill_pattern(source_.subspan(layout_.offset(slot), layout_.size), seed_of(phase, role_, slot));
  });
  for (uint32_t slot = 0; is_atomic(round_.operation) && slot < layout_.slots; ++slot) {
    const uint64_t next = next_of(phase.first, slot);
    std::memcpy(&source_[layout_.offset(slot)], &next, sizeof(next));
  }
  // The mark of the message before the first, so that arrived() cannot take poison for a mark.
  if (marked()) target_[layout_.size - 1] = std::byte{mark_of(phase.first - 1)};
}

/// The first message from `message` on that goes to that slot.
uint64_t RoundMemory::next_of(uint64_t message, uint32_t slot) const {
  return message + (slot + layout_.slots - message % layout_.slots) % layout_.slots;
}

uint64_t RoundMemory::word(std::span<const std::byte> area, uint32_t slot) const {
  uint64_t value = 0;
  std::memcpy(&value, &area[layout_.offset(slot)], sizeof(value));
  return value;
}

void RoundMemory::verify_counter(uint64_t end, uint32_t slot) const {
  if (word(source_, slot) == next_of(end, slot)) return;
  throw client::Failure(fmt::format("{}: the word of slot {} is {} and should be {}",
                                    name_of(round_.operation), slot, word(source_, slot),
                                    next_of(end, slot)));
}

void RoundMemory::verify_original(uint64_t end, uint32_t slot, bool used) const {
  const std::span<const std::byte> bytes = target_.subspan(layout_.offset(slot), layout_.extent());
  const bool right = used ? word(target_, slot) == next_of(end, slot) - layout_.slots
                          : !client::first_touched(bytes.first(layout_.size));
  if (right && !client::first_touched(bytes.subspan(layout_.size))) return;
  throw client::Failure(
      fmt::format("{}: what slot {} got is not what was there", name_of(round_.operation), slot));
}

uint64_t RoundMemory::verify(const Phase& phase, uint64_t end) {
  if (is_atomic(round_.operation)) {
    for (uint32_t slot = 0; slot < layout_.slots; ++slot) {
      if (role_ == Role::kResponder) {
        verify_counter(end, slot);
      } else {
        verify_original(end, slot, next_of(phase.first, slot) < end);
      }
    }
    return std::min<uint64_t>(end - phase.first, layout_.slots) * layout_.size;
  }
  const bool read = round_.operation == Operation::kRead;
  const bool is_target = round_.ping_pong() || (role_ == Role::kInitiator) == read;
  const uint64_t messages = is_target ? end - phase.first : 0;
  if (marked() && !arrived(end - 1)) {
    throw client::Failure(
        fmt::format("write of {}: the last byte is not that of the last message", size_text(round_.size)));
  }
  for_each_slot(layout_, [&](uint32_t slot) {
    // Slots are taken in turn, so those used are the `messages` ones that begin at the slot of phase.first.
    const uint64_t turn = (slot + layout_.slots - phase.first % layout_.slots) % layout_.slots;
    verify_slot(phase, slot, turn < messages);
  });
  return std::min<uint64_t>(messages, layout_.slots) * layout_.size;
}

uint64_t RoundMemory::verify_arrived(const Phase& phase, uint64_t end, const Arrivals& arrivals) {
  const bool write = round_.operation == Operation::kWrite;
  const bool is_target = round_.ping_pong() || role_ == Role::kResponder;
  uint64_t whole = 0;
  for (uint32_t slot = 0; slot < layout_.slots; ++slot) {
    const std::optional<uint64_t> message = arrivals.in_slot(slot);
    // A message that lost its end may have touched the receive that waits, or the place it was written to.
    // What else belongs there has the same bytes when it comes from the same slot.
    const bool sent_there = write && is_target && next_of(phase.first, slot) < end;
    const bool open = layout_.slots > 1 && !write && slot == arrivals.open_slot();
    if (!message) {
      if (!sent_there && !open) expect_untouched(slot);
    } else if (*message >= phase.first && !open) {
      expect_message(phase, slot, static_cast<uint32_t>(*message % layout_.slots));
      ++whole;
    }
  }
  return whole * layout_.size;
}

void RoundMemory::verify_slot(const Phase& phase, uint32_t slot, bool used) {
  if (used) {
    expect_message(phase, slot, slot);
  } else {
    expect_untouched(slot);
  }
}

std::string RoundMemory::place(uint32_t slot, size_t byte) const {
  return fmt::format("{} of {}, {}: slot {}, byte {}", name_of(round_.operation), size_text(round_.size),
                     role_ == Role::kInitiator ? "memory of the initiator" : "memory of the peer", slot,
                     byte);
}

void RoundMemory::expect_untouched(uint32_t slot) const {
  const std::span<const std::byte> bytes = target_.subspan(layout_.offset(slot), layout_.extent());
  if (const auto byte = client::first_touched(bytes.first(layout_.size - (marked() ? 1 : 0))))
    throw client::Failure(place(slot, *byte) + " was written though no message went there");
  if (const auto byte = client::first_touched(bytes.subspan(layout_.size)))
    throw client::Failure(place(slot, layout_.size + *byte) + " was written behind the message's end");
}

void RoundMemory::expect_message(const Phase& phase, uint32_t slot, uint32_t source_slot) const {
  const std::span<const std::byte> bytes = target_.subspan(layout_.offset(slot), layout_.extent());
  const Role writer = role_ == Role::kInitiator ? Role::kResponder : Role::kInitiator;
  const auto message = bytes.first(layout_.size - (marked() ? 1 : 0));
  if (const auto byte = client::first_difference(message, seed_of(phase, writer, source_slot)))
    throw client::Failure(place(slot, *byte) + " is not what was sent");
  if (const auto byte = client::first_touched(bytes.subspan(layout_.size)))
    throw client::Failure(place(slot, layout_.size + *byte) + " was written behind the message's end");
}

void RoundMemory::mark_source(uint64_t message) { source_[layout_.size - 1] = std::byte{mark_of(message)}; }

bool RoundMemory::arrived(uint64_t message) const {
  auto& last = reinterpret_cast<uint8_t&>(target_[layout_.size - 1]);
  // Acquire: pairs with whatever order the device gives its last byte; the bytes before it are read
  // afterwards.
  return std::atomic_ref<uint8_t>(last).load(std::memory_order_acquire) == mark_of(message);
}

}  // namespace uroce::perf
