#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "mem/access.h"
#include "mem/region.h"

namespace uroce::mem {

class RegionObject;

/// What a key is bound to.
struct RegionBinding {
  MemoryKey key;
  RegionKind kind = RegionKind::kNone;  // kNone: nothing; the key is only remembered
  Layout layout = Layout::kContiguous;
  uint8_t page_shift = 0;  // kPages
  bool bound = true;       // false: the region waits for a binding (REG_MR, bind, map); what follows is void
  bool cold = false;
  DomainId domain{};
  QpNumber queue_pair{};  // a window of one queue pair; 0: of any
  Access access{};
  uint64_t iova = 0;
  uint64_t length = 0;
  void* memory = nullptr;          // as Binding says
  uint64_t offset = 0;             // of the first byte in `memory`
  RegionObject* object = nullptr;  // of a region that has one
};

/// A key that waits for what a work request binds it to. Access is checked before state, so it has every
/// right: whatever is asked of it, the answer is that it is unbound.
inline RegionBinding unbound_entry(MemoryKey key, RegionKind kind, DomainId domain, RegionObject* object) {
  return {.key = key,
          .kind = kind,
          .bound = false,
          .domain = domain,
          .access = Access(UINT32_MAX),
          .object = object};
}

/// One cache line of the key table: a RegionBinding under a sequence counter, so that a live entry can be
/// bound anew while pollers read it and none of them ever sees a mix of two bindings. All zero is a valid,
/// unbound entry. Writers are serialised by the caller; readers are wait-free.
class alignas(64) RegionEntry {
 public:
  void write(const RegionBinding& binding) {
    const auto sequence = static_cast<uint32_t>(load_relaxed(words_[kSequenceAccess]));
    // The counter is odd from here on. Each word is released after it, so a reader that sees a new one also
    // sees, at its second look, that the counter has moved.
    __atomic_store_n(&words_[kSequenceAccess], pair(sequence + 1, 0), __ATOMIC_RELAXED);
    store(kKeyAttributes, pair(binding.key.value, attributes_of(binding)));
    store(kDomainQueuePair, pair(binding.domain.value, binding.queue_pair.value));
    store(kIova, binding.iova);
    store(kLength, binding.length);
    store(kMemory, reinterpret_cast<uint64_t>(binding.memory));
    store(kOffset, binding.offset);
    store(kObject, reinterpret_cast<uint64_t>(binding.object));
    store(kSequenceAccess, pair(sequence + 2, binding.access.bits()));
  }

  /// Nothing bound (kNone) also when a writer was at work during each of several looks.
  [[nodiscard]] RegionBinding read() const {
    for (int look = 0; look < kLooksMax; ++look) {
      if (look >= kQuickLooks) sched_yield();
      std::array<uint64_t, kWords> words;
      for (size_t i = 0; i < kWords; ++i) words[i] = load(i);
      if (unchanged(words[kSequenceAccess])) [[likely]]
        return unpack(words);
    }
    return {};
  }

  /// Where [iova, iova + length) is when the entry is of the most frequent sort (in one piece, bound, for any
  /// queue pair), nobody is writing it, and everything is right; else nullptr, and read() tells what is not.
  /// `cold` is that of the region. (A Binding made here would be copied through memory.)
  [[gnu::always_inline]] [[nodiscard]] inline std::byte* resolve_at_once(MemoryKey key, DomainId domain,
                                                                         uint64_t iova, uint64_t length,
                                                                         Access needed, bool& cold) const {
    const uint64_t sequence_access = load(kSequenceAccess);
    const uint64_t key_attributes = load(kKeyAttributes);
    const uint64_t domain_queue_pair = load(kDomainQueuePair);
    const uint64_t base = load(kIova);
    const uint64_t bytes = load(kLength);
    auto* const memory = reinterpret_cast<std::byte*>(load(kMemory));
    const uint32_t attributes = high(key_attributes);
    const uint64_t offset = iova - base;
    const bool right = unchanged(sequence_access) && low(key_attributes) == key.value &&
                       (attributes & kAtOnce) != 0 && domain_queue_pair == pair(domain.value, 0) &&
                       (needed.bits() & ~high(sequence_access)) == 0 && iova >= base && offset <= bytes &&
                       length <= bytes - offset;
    cold = (attributes & kCold) != 0;
    return right ? memory + offset : nullptr;
  }

 private:
  // Two halves of a word: the low one first.
  enum Word : size_t {
    kSequenceAccess,
    kKeyAttributes,
    kDomainQueuePair,
    kIova,
    kLength,
    kMemory,
    kOffset,
    kObject,
    kWords
  };
  static constexpr uint32_t kKindMask = 0xFF;
  static constexpr uint32_t kLayoutShift = 8;
  static constexpr uint32_t kLayoutMask = 0xF;
  static constexpr uint32_t kPageShift = 16;
  static constexpr uint32_t kPageMask = 0x3F;
  static constexpr uint32_t kCold = 1u << 24;
  static constexpr uint32_t kUnbound = 1u << 25;
  static constexpr uint32_t kAtOnce = 1u << 26;  // resolve_at_once() may
  /// A writer may lose its core half-way, in the middle of a change that leaves the region usable: it is
  /// given the reader's, a peer's request must not be refused for that. But it cannot hold up a poller for
  /// ever.
  static constexpr int kQuickLooks = 64;
  static constexpr int kLooksMax = kQuickLooks + 1000;

  static constexpr uint64_t pair(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }
  static constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  static constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  static uint32_t attributes_of(const RegionBinding& binding) {
    const bool at_once = binding.kind != RegionKind::kNone && binding.kind != RegionKind::kReservedLKey &&
                         binding.layout == Layout::kContiguous && binding.bound && binding.offset == 0 &&
                         binding.queue_pair == QpNumber{};
    return static_cast<uint32_t>(binding.kind) | static_cast<uint32_t>(binding.layout) << kLayoutShift |
           uint32_t{binding.page_shift} << kPageShift | (binding.cold ? kCold : 0) |
           (binding.bound ? 0 : kUnbound) | (at_once ? kAtOnce : 0);
  }
  static RegionBinding unpack(const std::array<uint64_t, kWords>& words) {
    const uint32_t attributes = high(words[kKeyAttributes]);
    return {.key = {low(words[kKeyAttributes])},
            .kind = static_cast<RegionKind>(attributes & kKindMask),
            .layout = static_cast<Layout>(attributes >> kLayoutShift & kLayoutMask),
            .page_shift = static_cast<uint8_t>(attributes >> kPageShift & kPageMask),
            .bound = (attributes & kUnbound) == 0,
            .cold = (attributes & kCold) != 0,
            .domain = {low(words[kDomainQueuePair])},
            .queue_pair = {high(words[kDomainQueuePair])},
            .access = Access(high(words[kSequenceAccess])),
            .iova = words[kIova],
            .length = words[kLength],
            .memory = reinterpret_cast<void*>(words[kMemory]),
            .offset = words[kOffset],
            .object = reinterpret_cast<RegionObject*>(words[kObject])};
  }

  void store(Word word, uint64_t value) {
    __atomic_store_n(&words_[word], value, __ATOMIC_RELEASE);  // pairs with the acquire in load()
  }
  [[nodiscard]] uint64_t load(size_t word) const {
    return __atomic_load_n(&words_[word], __ATOMIC_ACQUIRE);  // pairs with the release in store()
  }
  /// Partners as said where it is used.
  static uint64_t load_relaxed(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
  /// Nobody wrote since `before`, which was loaded first. All loads in between were acquires, so this one
  /// cannot move before them.
  [[nodiscard]] bool unchanged(uint64_t before) const {
    return load_relaxed(words_[kSequenceAccess]) == before && (before & 1) == 0;
  }

  std::array<uint64_t, kWords> words_{};
};

static_assert(sizeof(RegionEntry) == 64);

}  // namespace uroce::mem
