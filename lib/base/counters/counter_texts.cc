#include "base/counters/counter_texts.h"

#include <array>
#include <cstddef>

#include "base/counters/latencies.h"

namespace uroce {

namespace {

constexpr std::array<CounterTexts, kCounterCount> kTexts = {{
#define X(name, label, unit, help) {label, unit, help},
    UROCE_COUNTERS(X)
#undef X
}};

constexpr uint64_t mix(uint64_t hash, std::string_view text) {
  constexpr uint64_t kPrime = 0x100'0000'01B3;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash * kPrime;
}

constexpr uint64_t hash_of_labels() {
  uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (const CounterTexts& texts : kTexts) hash = mix(hash, texts.label);
  for (const LatencyTexts& texts : kLatencyTexts) hash = mix(mix(hash, texts.stage), texts.operation);
  return hash;
}

constexpr uint64_t kHash = hash_of_labels();

}  // namespace

const CounterTexts& texts_of(Counter counter) { return kTexts[static_cast<size_t>(counter)]; }

uint64_t counter_table_hash() { return kHash; }

}  // namespace uroce
