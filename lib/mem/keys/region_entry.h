#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads/seqlock.h"
#include "base/values/contract.h"
#include "base/values/identifiers.h"
#include "mem/keys/key_bytes.h"
#include "mem/rights/access.h"
#include "mem/rights/region.h"

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
  QpIdentity queue_pair{};  // a window of one queue pair; none: of any
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
    // What shares a word with something else has no bit more than its part.
    UROCE_ASSERT(binding.offset <= kOffsetMask && binding.page_shift <= kPageMask);
    UROCE_ASSERT(binding.queue_pair.value >> QpIdentity::kBits == 0);
    // A key that is only remembered leads nowhere.
    UROCE_ASSERT(binding.kind != RegionKind::kNone ||
                 (binding.memory == nullptr && binding.object == nullptr));
    words_.write(
        {pair(0, ~binding.access.bits()), pair(binding.key.value, attributes_of(binding)),
         pair(binding.domain.value, low_half(binding.queue_pair) | (at_once(binding) ? 0 : kInOrder)),
         binding.iova, binding.length, reinterpret_cast<uint64_t>(binding.memory),
         binding.offset | high_half(binding.queue_pair) << kOffsetBits,
         reinterpret_cast<uint64_t>(binding.object)});
  }

  /// Bound to nothing, and remembers what its index has had. Only for consumer-chosen keys: their indexes
  /// do not come back to another one.
  void rest(MemoryKey key, const KeyHistory& history) {
    const auto& [first, second, third, fourth] = history.words;
    words_.write(
        {pair(0, UINT32_MAX), pair(key.value, 0), pair(0, kInOrder), first, second, third, fourth, 0});
  }
  /// The value of an entry that rests.
  [[nodiscard]] KeyHistory history() const {
    const Words::Words words = words_.read();
    return {{words[kIova], words[kLength], words[kMemory], words[kOffset]}};
  }

  /// Nothing bound (kNone) also when a writer was at work during each of very many looks.
  [[nodiscard]] RegionBinding read() const { return unpack(words_.read()); }

  struct Found {
    bool right = false;
    std::byte* data = nullptr;
    MemoryNature nature;
  };
  /// What the entry binds when it is of the most frequent sort: in one piece, bound, for any queue pair.
  struct Run {
    uint64_t version = 0;  // see is_still()
    uint64_t iova = 0;
    uint64_t length = 0;
    std::byte* memory = nullptr;
    MemoryNature nature;
    bool right = false;  // it is, no thread is writing it, and key, domain and rights are right

    /// Where [its_iova, its_iova + its_length) is, if that is not empty and inside.
    [[gnu::always_inline]] [[nodiscard]] inline Found find(uint64_t its_iova, uint64_t its_length) const {
      // Below the region the offset wraps to beyond it, or the last byte's; length 0 has a last byte far
      // away.
      const uint64_t offset = its_iova - iova;
      uint64_t last = 0;
      if (__builtin_add_overflow(offset, its_length - 1, &last) || last >= length) [[unlikely]]
        return {};
      return {true, memory + offset, nature};
    }
  };
  /// All words together are of one binding.
  [[gnu::always_inline]] [[nodiscard]] inline Run run(MemoryKey key, DomainId domain, Access needed) const {
    // One word at a time: all at once are more than there are registers.
    const uint64_t sequence_denied = words_.load(kSequenceDenied);
    if ((sequence_denied & pair(Words::kChanging, needed.bits())) != 0) [[unlikely]]
      return {};
    const uint64_t key_attributes = words_.load(kKeyAttributes);
    if (low(key_attributes) != key.value) [[unlikely]]
      return {};
    if (words_.load(kDomainQueuePair) != pair(domain.value, 0)) [[unlikely]]
      return {};
    const uint64_t iova = words_.load(kIova);
    const uint64_t length = words_.load(kLength);
    auto* const memory = reinterpret_cast<std::byte*>(words_.load(kMemory));
    if (!words_.still(sequence_denied)) [[unlikely]]
      return {};
    return {.version = sequence_denied,
            .iova = iova,
            .length = length,
            .memory = memory,
            .nature = MemoryNature::from_bits(high(key_attributes) >> kNatureShift),
            .right = true};
  }
  /// No thread has begun to write the entry since run() gave this version.
  [[nodiscard]] bool is_still(uint64_t version) const { return words_.load(kSequenceDenied) == version; }

  /// Where [iova, iova + length) is when that is not empty, the entry is of the most frequent sort, no thread
  /// is writing it, and everything is right; else read() tells what is not. (A Binding made here would be
  /// copied through memory.)
  [[gnu::always_inline]] [[nodiscard]] inline Found resolve_at_once(MemoryKey key, DomainId domain,
                                                                    uint64_t iova, uint64_t length,
                                                                    Access needed) const {
    const Run found = run(key, domain, needed);
    if (!found.right) [[unlikely]]
      return {};
    return found.find(iova, length);
  }

 private:
  // Two halves of a word: the low one first.
  enum Word : size_t {
    kSequenceDenied,  // the rights that it does not have
    kKeyAttributes,
    kDomainQueuePair,  // its low half
    kIova,
    kLength,
    kMemory,
    kOffset,  // and its high one
    kObject,
    kWords
  };
  using Words = Seqlock<kWords>;
  static constexpr uint32_t kKindMask = 0xFF;
  static constexpr uint32_t kLayoutShift = 8;
  static constexpr uint32_t kLayoutMask = 0xF;
  static constexpr uint32_t kPageShift = 16;
  static constexpr uint32_t kPageMask = 0x3F;
  static constexpr uint32_t kUnbound = 1u << 22;
  static constexpr uint32_t kNatureShift = 24;  // nothing is above it
  /// Beside the queue pair, so that all that keeps resolve_at_once() from an entry is in one word.
  static constexpr uint32_t kInOrder = 1u << 31;

  // The queue pair's other half is above an offset, which is inside a region.
  static constexpr unsigned kLowHalfBits = 31;
  static constexpr unsigned kOffsetBits = 48;
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;
  static_assert(QpIdentity::kBits <= kLowHalfBits + 64 - kOffsetBits);

  static constexpr uint32_t low_half(QpIdentity queue_pair) {
    return static_cast<uint32_t>(queue_pair.value) & ~kInOrder;
  }
  static constexpr uint64_t high_half(QpIdentity queue_pair) { return queue_pair.value >> kLowHalfBits; }

  static constexpr uint64_t pair(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }
  static constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  static constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  /// resolve_at_once() may.
  static bool at_once(const RegionBinding& binding) {
    return binding.kind != RegionKind::kNone && binding.kind != RegionKind::kReservedLKey &&
           binding.layout == Layout::kContiguous && binding.bound && binding.offset == 0 &&
           binding.queue_pair == QpIdentity{};
  }
  static uint32_t attributes_of(const RegionBinding& binding) {
    return static_cast<uint32_t>(binding.kind) | static_cast<uint32_t>(binding.layout) << kLayoutShift |
           uint32_t{binding.page_shift} << kPageShift | (binding.bound ? 0 : kUnbound) |
           MemoryNature(binding.cold, binding.ours).bits() << kNatureShift;
  }
  static RegionBinding unpack(const Words::Words& words) {
    const uint32_t attributes = high(words[kKeyAttributes]);
    const auto nature = MemoryNature::from_bits(attributes >> kNatureShift);
    const MemoryKey key{low(words[kKeyAttributes])};
    const auto kind = static_cast<RegionKind>(attributes & kKindMask);
    if (kind == RegionKind::kNone) return {.key = key};  // zeros deny nothing
    return {.key = key,
            .kind = kind,
            .layout = static_cast<Layout>(attributes >> kLayoutShift & kLayoutMask),
            .page_shift = static_cast<uint8_t>(attributes >> kPageShift & kPageMask),
            .bound = (attributes & kUnbound) == 0,
            .cold = nature.cold(),
            .ours = nature.ours(),
            .domain = {low(words[kDomainQueuePair])},
            .queue_pair = {words[kOffset] >> kOffsetBits << kLowHalfBits |
                           (high(words[kDomainQueuePair]) & ~kInOrder)},
            .access = Access(~high(words[kSequenceDenied])),
            .iova = words[kIova],
            .length = words[kLength],
            .memory = reinterpret_cast<void*>(words[kMemory]),
            .offset = words[kOffset] & kOffsetMask,
            .object = reinterpret_cast<RegionObject*>(words[kObject])};
  }

  Words words_;
};

static_assert(sizeof(RegionEntry) == 64);

}  // namespace uroce::mem
