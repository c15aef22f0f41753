// A bus address is a slot of a size class, for hugepages too. Translation takes constant time and no lock,
// and a stale address resolves to nothing. Cost: hugepages do not keep their IOVA, and a binding pins what it
// covers.
#include "mem/bus/bus_space.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <string>

#include "base/threads/seqlock.h"
#include "base/values/contract.h"

namespace uroce::mem {

namespace {

constexpr uint64_t kTag = 0xB;
constexpr uint32_t kTagShift = 60;
constexpr uint32_t kClassShift = 54;
constexpr uint64_t kPageMask = 4095;
constexpr uint32_t kSlotBitsMax = 22;
constexpr uint32_t kGenerationBitsMax = 8;

/// How the bits of an address are divided in a size class.
struct Division {
  uint32_t slot_shift;
  uint32_t slot_bits;
  uint32_t generation_bits;

  explicit constexpr Division(uint32_t size_class)
      : slot_shift(size_class),
        slot_bits(std::min(kSlotBitsMax, kClassShift - size_class)),
        generation_bits(std::min(kGenerationBitsMax, kClassShift - size_class - slot_bits)) {}

  [[nodiscard]] constexpr uint32_t slot(uint64_t address) const {
    return static_cast<uint32_t>(address >> slot_shift & ((uint64_t{1} << slot_bits) - 1));
  }
  [[nodiscard]] constexpr uint64_t base(uint32_t slot, uint32_t generation) const {
    const uint64_t of_slot = generation & ((1u << generation_bits) - 1);
    return kTag << kTagShift | uint64_t{slot_shift} << kClassShift | of_slot << (slot_shift + slot_bits) |
           uint64_t{slot} << slot_shift;
  }
};

}  // namespace

/// One cache line: a mapping, and its pins. All zero is unused.
class alignas(64) BusSpace::Entry {
 public:
  struct Mapping {
    uint64_t address = 0;  // of the first byte, without the space's offset
    uint64_t length = 0;   // 0: unmapped
    std::byte* data = nullptr;
    Direction direction = Direction::kBidirectional;

    [[nodiscard]] bool covers(uint64_t from, uint64_t bytes) const {
      return length != 0 && from - address <= length && bytes <= length - (from - address);
    }
    /// Does what BusSpace::translate() does.
    [[nodiscard]] std::byte* at(uint64_t from, uint64_t bytes, Access needed) const {
      return covers(from, bytes) && permits(direction, needed) ? data + (from - address) : nullptr;
    }
  };

  void write(const Mapping& mapping) {
    words_.write({uint64_t{static_cast<uint8_t>(mapping.direction)} << kDirectionShift, mapping.address,
                  mapping.length, reinterpret_cast<uint64_t>(mapping.data)});
  }

  /// Unmapped also when a writer was at work during each of very many looks.
  [[nodiscard]] Mapping read() const {
    const auto [direction, address, length, data] = words_.read();
    return {.address = address,
            .length = length,
            .data = reinterpret_cast<std::byte*>(data),
            .direction = static_cast<Direction>(direction >> kDirectionShift)};
  }

  /// False: it is being unmapped.
  bool pin() {
    // Pairs with claim(): either this is seen there, or the claim here.
    if ((pins_.fetch_add(1, std::memory_order_acq_rel) & kClaimed) == 0) return true;
    unpin();
    return false;
  }
  void unpin() {
    [[maybe_unused]] const uint32_t before =
        pins_.fetch_sub(1, std::memory_order_release);  // pairs with claim()
    UROCE_ASSERT((before & ~kClaimed) > 0);
  }

  /// The right to unmap. 0, EBUSY: pinned, EINVAL: another thread has it.
  int claim() {
    uint32_t none = 0;
    if (pins_.compare_exchange_strong(none, kClaimed, std::memory_order_acq_rel, std::memory_order_relaxed))
      return 0;
    return (none & kClaimed) != 0 ? EINVAL : EBUSY;
  }
  void give_up_claim() {
    [[maybe_unused]] const uint32_t before =
        pins_.fetch_and(~kClaimed, std::memory_order_release);  // pairs with claim()
    UROCE_ASSERT((before & kClaimed) != 0);
  }

  uint32_t generation = 0;  // the owner of the slot

 private:
  static constexpr uint32_t kClaimed = 1u << 31;
  static constexpr uint32_t kDirectionShift = 32;

  Seqlock<4> words_;
  std::atomic<uint32_t> pins_{0};
};

BusSpace::BusSpace(const Options& options) : options_(options) {}

BusSpace::~BusSpace() {
  for (std::atomic<IndexSpace*>& slots : classes_) delete slots.load(std::memory_order_relaxed);
}

IndexSpace* BusSpace::slots_of(uint32_t size_class) {
  UROCE_ASSERT(size_class >= kClassMin && size_class <= kClassMax);
  std::atomic<IndexSpace*>& slots = classes_[size_class - kClassMin];
  if (IndexSpace* made = slots.load(std::memory_order_acquire); made != nullptr) return made;  // as find()
  const std::lock_guard lock(classes_mutex_);
  if (IndexSpace* made = slots.load(std::memory_order_relaxed); made != nullptr) return made;
  auto* made = new IndexSpace(1u << Division(size_class).slot_bits, options_.pages);
  slots.store(made, std::memory_order_release);  // pairs with find()
  return made;
}

BusSpace::Entry* BusSpace::find(uint64_t address) const {
  static_assert(sizeof(Entry) == IndexSpace::kEntryBytes);
  if (address >> kTagShift != kTag) return nullptr;
  const uint32_t size_class = address >> kClassShift & 0x3F;
  if (size_class < kClassMin || size_class > kClassMax) return nullptr;
  const IndexSpace* slots = classes_[size_class - kClassMin].load(std::memory_order_acquire);
  const uint32_t slot = Division(size_class).slot(address);
  if (slots == nullptr || slot >= slots->backed()) return nullptr;
  return reinterpret_cast<Entry*>(slots->at(slot));
}

/// The smallest with room for so many bytes from that place in the first page on.
uint32_t BusSpace::size_class_of(uint64_t in_page, uint64_t length) {
  UROCE_ASSERT(in_page <= kPageMask && length > 0 && length <= kLengthMax);
  return std::max(kClassMin, static_cast<uint32_t>(std::bit_width(in_page + length - 1)));
}

Result<uint64_t> BusSpace::map(std::byte* address, uint64_t length, Direction direction) {
  const auto start = reinterpret_cast<uint64_t>(address);
  if (length == 0 || length > kLengthMax || start + (length - 1) < start) {
    return Error{EINVAL, "cannot map " + std::to_string(length) + " bytes"};
  }
  const uint64_t in_page = start & kPageMask;
  const uint32_t size_class = size_class_of(in_page, length);
  try {
    IndexSpace& slots = *slots_of(size_class);
    const auto slot = slots.allocate();
    if (!slot) return Error{ENOMEM, "too many mappings of this size"};
    Entry& entry = *reinterpret_cast<Entry*>(slots.at(*slot));
    UROCE_ASSERT(entry.read().length == 0);
    const uint64_t mapped = Division(size_class).base(*slot, ++entry.generation) + in_page;
    UROCE_ASSERT(find(mapped) == &entry && find(mapped + (length - 1)) == &entry);
    entry.write({.address = mapped, .length = length, .data = address, .direction = direction});
    mappings_.fetch_add(1, std::memory_order_relaxed);
    return mapped + options_.offset;
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory for mappings of this size"};
  }
}

Status BusSpace::unmap(std::span<const BusRange> mappings, Direction direction) {
  int error = 0;
  size_t claimed = 0;
  for (; claimed < mappings.size(); ++claimed) {
    const uint64_t address = mappings[claimed].address - options_.offset;
    Entry* entry = find(address);
    error = entry == nullptr ? EINVAL : entry->claim();
    if (error != 0) break;
    const Entry::Mapping mapping = entry->read();
    if (mapping.address == address && mapping.length == mappings[claimed].length && mapping.length != 0 &&
        mapping.direction == direction)
      continue;
    entry->give_up_claim();
    error = EINVAL;
    break;
  }
  if (error != 0) {
    for (const BusRange& range : mappings.first(claimed))
      find(range.address - options_.offset)->give_up_claim();
    return Error{error, error == EBUSY ? "a region covers the mapping" : "no such mapping"};
  }
  for (const BusRange& range : mappings) {
    const uint64_t address = range.address - options_.offset;
    find(address)->write({.address = address});
  }
  if (options_.grace_period != nullptr) options_.grace_period->wait();
  for (const BusRange& range : mappings) {
    const uint64_t address = range.address - options_.offset;
    take_back(*find(address), address);
  }
  return {};
}

void BusSpace::take_back(Entry& entry, uint64_t address) {
  entry.give_up_claim();
  const uint32_t size_class = address >> kClassShift & 0x3F;
  slots_of(size_class)->free(Division(size_class).slot(address));
  mappings_.fetch_sub(1, std::memory_order_relaxed);
}

Piece BusSpace::translate(uint64_t address, uint64_t length, Access needed) const {
  const auto look = [&](uint64_t where) {
    const Entry* entry = find(where - options_.offset);
    return entry == nullptr ? nullptr : entry->read().at(address - options_.offset, length, needed);
  };
  std::byte* data = look(address);
  // No bytes at the end of a mapping are still of it, also when the address is that of its neighbour.
  if (data == nullptr && length == 0) data = look(address - 1);
  return {data, data != nullptr ? length : 0};
}

BusSpace::Pinned BusSpace::pin(uint64_t address, uint64_t length, Access access) {
  Entry* entry = find(address - options_.offset);
  if (entry == nullptr || !entry->pin()) return {};
  // With the pin, what is mapped now stays mapped.
  const Entry::Mapping mapping = entry->read();
  const Pinned pinned{mapping.at(address - options_.offset, length, access), use_of(mapping.direction).reads};
  if (pinned.data != nullptr) return pinned;
  entry->unpin();
  return {};
}

bool BusSpace::covers(uint64_t address, uint64_t length, Direction direction) const {
  const Entry* entry = find(address - options_.offset);
  if (entry == nullptr) return false;
  const Entry::Mapping mapping = entry->read();
  return mapping.direction == direction && mapping.covers(address - options_.offset, length);
}

std::optional<BusSpace::AllocationLimits> BusSpace::allocation_limits(uint64_t length) const {
  if (length == 0 || length > kLengthMax) return std::nullopt;
  const auto size_class = size_class_of(0, length);
  const IndexSpace* slots = classes_[size_class - kClassMin].load(std::memory_order_acquire);  // as find()
  const uint64_t aligned = uint64_t{1} << size_class | options_.offset;
  return AllocationLimits{.alignment = aligned & -aligned,
                          .mappings_max = (1u << Division(size_class).slot_bits) - 1,
                          .mappings = slots != nullptr ? slots->in_use() : 0};
}

void BusSpace::unpin(uint64_t address) {
  Entry* const entry = find(address - options_.offset);
  UROCE_ASSERT(entry != nullptr);
  entry->unpin();
}

}  // namespace uroce::mem
