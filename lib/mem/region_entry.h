#pragma once

#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "mem/access.h"
#include "mem/region.h"

namespace uroce::mem {

/// What a key is bound to.
struct RegionBinding {
  MemoryKey key;
  RegionKind kind = RegionKind::kNone;  // kNone: nothing; the key is only remembered
  bool cold = false;
  DomainId domain{};
  Access access{};
  uint64_t iova = 0;
  uint64_t length = 0;
  std::byte* base = nullptr;
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
    store(attributes_, static_cast<uint32_t>(binding.kind) | (binding.cold ? kCold : 0));
    store(domain_, binding.domain.value);
    store(access_, binding.access.bits());
    store(iova_, binding.iova);
    store(length_, binding.length);
    store(base_, binding.base);
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
      const uint32_t access = load(access_);
      const uint64_t iova = load(iova_);
      const uint64_t length = load(length_);
      std::byte* const base = load(base_);
      // The loads above are acquires, so this one cannot move before them.
      if (load_relaxed(sequence_) != before || before % 2 != 0) [[unlikely]]
        continue;
      return {.key = {key},
              .kind = static_cast<RegionKind>(attributes & kKindMask),
              .cold = (attributes & kCold) != 0,
              .domain = {domain},
              .access = Access(access),
              .iova = iova,
              .length = length,
              .base = base};
    }
    return {};
  }

 private:
  static constexpr uint32_t kKindMask = 0xFF;
  static constexpr uint32_t kCold = 1u << 8;
  /// A writer that is preempted half-way must not hold up a poller: it then answers as if nothing were bound.
  static constexpr int kLooksMax = 64;

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
  uint32_t access_ = 0;
  uint64_t iova_ = 0;
  uint64_t length_ = 0;
  std::byte* base_ = nullptr;
};

static_assert(sizeof(RegionEntry) == 64);

}  // namespace uroce::mem
