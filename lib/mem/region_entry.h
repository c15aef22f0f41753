#pragma once

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

/// One cache line of the key table: a RegionBinding under a sequence counter, so that a live entry can be
/// bound anew while pollers read it and none of them ever sees a mix of two bindings. All zero is a valid,
/// unbound entry. Writers are serialised by the caller; readers are wait-free.
class alignas(64) RegionEntry {
 public:
  void write(const RegionBinding& binding) {
    const uint32_t sequence = load_relaxed(sequence_);
    // The counter is odd from here on. Each field is released after it, so a reader that sees a new field
    // also sees, at its second look, that the counter has moved.
    __atomic_store_n(&sequence_, sequence + 1, __ATOMIC_RELAXED);
    store(key_, binding.key.value);
    store(attributes_, pack(binding));
    store(domain_, binding.domain.value);
    store(queue_pair_, binding.queue_pair.value);
    store(access_, binding.access.bits());
    store(iova_, binding.iova);
    store(length_, binding.length);
    store(memory_, binding.memory);
    store(offset_, binding.offset);
    store(object_, binding.object);
    store(sequence_, sequence + 2);
  }

  /// Nothing bound (kNone) also when a writer was at work during each of several looks. Inlined, and with the
  /// fields in local variables until the end: a RegionBinding in memory costs more than all the loads.
  [[gnu::always_inline]] [[nodiscard]] inline RegionBinding read() const {
    for (int look = 0; look < kLooksMax; ++look) {
      const uint32_t before = load(sequence_);
      const uint32_t key = load(key_);
      const uint32_t attributes = load(attributes_);
      const uint32_t domain = load(domain_);
      const uint32_t queue_pair = load(queue_pair_);
      const uint32_t access = load(access_);
      const uint64_t iova = load(iova_);
      const uint64_t length = load(length_);
      void* const memory = load(memory_);
      const uint64_t offset = load(offset_);
      RegionObject* const object = load(object_);
      // The loads above are acquires, so this one cannot move before them.
      if (load_relaxed(sequence_) != before || before % 2 != 0) [[unlikely]]
        continue;
      return {.key = {key},
              .kind = static_cast<RegionKind>(attributes & kKindMask),
              .layout = static_cast<Layout>(attributes >> kLayoutShift & kLayoutMask),
              .page_shift = static_cast<uint8_t>(attributes >> kPageShift & kPageMask),
              .bound = (attributes & kUnbound) == 0,
              .cold = (attributes & kCold) != 0,
              .domain = {domain},
              .queue_pair = {queue_pair},
              .access = Access(access),
              .iova = iova,
              .length = length,
              .memory = memory,
              .offset = offset,
              .object = object};
    }
    return {};
  }

 private:
  static constexpr uint32_t kKindMask = 0xFF;
  static constexpr uint32_t kLayoutShift = 8;
  static constexpr uint32_t kLayoutMask = 0xF;
  static constexpr uint32_t kPageShift = 16;
  static constexpr uint32_t kPageMask = 0x3F;
  static constexpr uint32_t kCold = 1u << 24;
  static constexpr uint32_t kUnbound = 1u << 25;
  /// A writer that is preempted half-way must not hold up a poller: it then answers as if nothing were bound.
  static constexpr int kLooksMax = 64;

  static uint32_t pack(const RegionBinding& binding) {
    return static_cast<uint32_t>(binding.kind) | static_cast<uint32_t>(binding.layout) << kLayoutShift |
           uint32_t{binding.page_shift} << kPageShift | (binding.cold ? kCold : 0) |
           (binding.bound ? 0 : kUnbound);
  }
  template <typename T>
  static void store(T& field, T value) {
    __atomic_store_n(&field, value, __ATOMIC_RELEASE);  // pairs with the acquire in load()
  }
  template <typename T>
  static T load(const T& field) {
    return __atomic_load_n(&field, __ATOMIC_ACQUIRE);  // pairs with the release in store()
  }
  /// Partners as said where it is used.
  static uint32_t load_relaxed(const uint32_t& field) { return __atomic_load_n(&field, __ATOMIC_RELAXED); }

  uint32_t sequence_ = 0;
  uint32_t key_ = 0;
  uint32_t attributes_ = 0;
  uint32_t domain_ = 0;
  uint32_t queue_pair_ = 0;
  uint32_t access_ = 0;
  uint64_t iova_ = 0;
  uint64_t length_ = 0;
  void* memory_ = nullptr;
  uint64_t offset_ = 0;
  RegionObject* object_ = nullptr;
};

static_assert(sizeof(RegionEntry) == 64);

}  // namespace uroce::mem
