#pragma once

#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "base/sequenced_words.h"
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
  bool ours = false;  // memory of the stack's own: MemoryNature
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
    words_.write({pair(0, binding.access.bits()), pair(binding.key.value, attributes_of(binding)),
                  pair(binding.domain.value, binding.queue_pair.value), binding.iova, binding.length,
                  reinterpret_cast<uint64_t>(binding.memory), binding.offset,
                  reinterpret_cast<uint64_t>(binding.object)});
  }

  /// Nothing bound (kNone) also when a writer was at work during each of very many looks.
  [[nodiscard]] RegionBinding read() const { return unpack(words_.read()); }

  /// Where [iova, iova + length) is when the entry is of the most frequent sort (in one piece, bound, for any
  /// queue pair), nobody is writing it, and everything is right; else nullptr, and read() tells what is not.
  /// `nature` is that of the region. (A Binding made here would be copied through memory.)
  [[gnu::always_inline]] [[nodiscard]] inline std::byte* resolve_at_once(MemoryKey key, DomainId domain,
                                                                         uint64_t iova, uint64_t length,
                                                                         Access needed,
                                                                         MemoryNature& nature) const {
    const uint64_t sequence_access = words_.load(kSequenceAccess);
    const uint64_t key_attributes = words_.load(kKeyAttributes);
    const uint64_t domain_queue_pair = words_.load(kDomainQueuePair);
    const uint64_t base = words_.load(kIova);
    const uint64_t bytes = words_.load(kLength);
    auto* const memory = reinterpret_cast<std::byte*>(words_.load(kMemory));
    const uint32_t attributes = high(key_attributes);
    const uint64_t offset = iova - base;
    const bool right = words_.unchanged(sequence_access) && low(key_attributes) == key.value &&
                       (attributes & kAtOnce) != 0 && domain_queue_pair == pair(domain.value, 0) &&
                       (needed.bits() & ~high(sequence_access)) == 0 && iova >= base && offset <= bytes &&
                       length <= bytes - offset;
    nature = MemoryNature::from_bits(attributes >> kNatureShift & kNatureMask);
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
  static constexpr uint32_t kNatureShift = 24;
  static constexpr uint32_t kNatureMask = (1u << MemoryNature::kBits) - 1;
  static constexpr uint32_t kUnbound = 1u << 28;
  static constexpr uint32_t kAtOnce = 1u << 29;  // resolve_at_once() may

  static constexpr uint64_t pair(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }
  static constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  static constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  static uint32_t attributes_of(const RegionBinding& binding) {
    const bool at_once = binding.kind != RegionKind::kNone && binding.kind != RegionKind::kReservedLKey &&
                         binding.layout == Layout::kContiguous && binding.bound && binding.offset == 0 &&
                         binding.queue_pair == QpNumber{};
    return static_cast<uint32_t>(binding.kind) | static_cast<uint32_t>(binding.layout) << kLayoutShift |
           uint32_t{binding.page_shift} << kPageShift |
           MemoryNature(binding.cold, binding.ours).bits() << kNatureShift | (binding.bound ? 0 : kUnbound) |
           (at_once ? kAtOnce : 0);
  }
  static RegionBinding unpack(const SequencedWords<kWords>::Words& words) {
    const uint32_t attributes = high(words[kKeyAttributes]);
    const auto nature = MemoryNature::from_bits(attributes >> kNatureShift & kNatureMask);
    return {.key = {low(words[kKeyAttributes])},
            .kind = static_cast<RegionKind>(attributes & kKindMask),
            .layout = static_cast<Layout>(attributes >> kLayoutShift & kLayoutMask),
            .page_shift = static_cast<uint8_t>(attributes >> kPageShift & kPageMask),
            .bound = (attributes & kUnbound) == 0,
            .cold = nature.cold(),
            .ours = nature.ours(),
            .domain = {low(words[kDomainQueuePair])},
            .queue_pair = {high(words[kDomainQueuePair])},
            .access = Access(high(words[kSequenceAccess])),
            .iova = words[kIova],
            .length = words[kLength],
            .memory = reinterpret_cast<void*>(words[kMemory]),
            .offset = words[kOffset],
            .object = reinterpret_cast<RegionObject*>(words[kObject])};
  }

  SequencedWords<kWords> words_;
};

static_assert(sizeof(RegionEntry) == 64);

}  // namespace uroce::mem
