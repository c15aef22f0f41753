#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/index_space.h"
#include "base/random.h"
#include "mem/region_table.h"

// Nanoseconds per lookup by key, beside the floor: the same walk over a bare array of 64-byte lines.
// `dependent`: each lookup's result decides the next key. `burst`: the lines of 32 keys are prefetched, then
// the keys looked up, as a poller does with a burst of packets.

namespace uroce {
namespace {

constexpr size_t kBurst = 32;
constexpr size_t kKeys = 1 << 16;  // in the order in which they are looked up
constexpr uint64_t kRegionBytes = 64;

/// `live` entries in a table and in a bare array, and random keys to look up.
struct Tables {
  explicit Tables(uint32_t live)
      : regions({.entries_max = 1u << 24}), lines(1u << 24), memory(4096), keys(kKeys), indexes(kKeys) {
    std::vector<uint32_t> all;
    all.reserve(live);
    const mem::UserRegion region{
        .domain = {1}, .address = memory.data(), .length = kRegionBytes, .access = mem::kRemoteRead};
    for (uint32_t i = 0; i < live; ++i) {
      all.push_back(regions.register_user(region)->rkey.value);
      *reinterpret_cast<uint64_t*>(lines.at(*lines.allocate())) = 0;
    }
    Random random(live);
    for (size_t i = 0; i < kKeys; ++i) {
      keys[i] = {all[random.below(all.size())]};
      indexes[i] = keys[i].index();
    }
  }

  mem::RegionTable regions;
  IndexSpace lines;
  std::vector<std::byte> memory;
  std::vector<MemoryKey> keys;
  std::vector<uint32_t> indexes;
};

Tables& tables(int64_t live) {
  static std::unique_ptr<Tables> tables;
  static int64_t size = 0;
  if (size != live) {
    tables.reset();
    // One less: index 0 is nobody's.
    tables = std::make_unique<Tables>(static_cast<uint32_t>(std::min(live, int64_t{(1 << 24) - 1})));
    size = live;
  }
  return *tables;
}

void finish(benchmark::State& state, size_t lookups_per_iteration) {
  const double lookups = static_cast<double>(state.iterations()) * static_cast<double>(lookups_per_iteration);
  state.counters["ns_per_lookup"] =
      benchmark::Counter(lookups * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

uint64_t line_value(const IndexSpace& lines, uint32_t index) {
  return *reinterpret_cast<const volatile uint64_t*>(lines.at(index));
}

void floor_dependent(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  for (auto _ : state) at = (at + 1 + line_value(t.lines, t.indexes[at])) % kKeys;
  benchmark::DoNotOptimize(at);
  finish(state, 1);
}

void table_dependent(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  for (auto _ : state) {
    const mem::Binding binding = t.regions.resolve(t.keys[at], {{1}, {}}, 0, kRegionBytes, mem::kRemoteRead);
    at = (at + 1 + static_cast<size_t>(binding.piece(0).data - t.memory.data())) % kKeys;
  }
  benchmark::DoNotOptimize(at);
  finish(state, 1);
}

void floor_burst(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  uint64_t sum = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < kBurst; ++i) __builtin_prefetch(t.lines.at(t.indexes[at + i]));
    for (size_t i = 0; i < kBurst; ++i) sum += line_value(t.lines, t.indexes[at + i]);
    at = (at + kBurst) % kKeys;
  }
  benchmark::DoNotOptimize(sum);
  finish(state, kBurst);
}

void table_burst(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  uint64_t sum = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < kBurst; ++i) t.regions.prefetch(t.keys[at + i]);
    for (size_t i = 0; i < kBurst; ++i) {
      const mem::Binding binding =
          t.regions.resolve(t.keys[at + i], {{1}, {}}, 0, kRegionBytes, mem::kRemoteRead);
      sum += static_cast<uint64_t>(binding.fault());
    }
    at = (at + kBurst) % kKeys;
  }
  if (sum != 0) state.SkipWithError("a key did not resolve");
  finish(state, kBurst);
}

}  // namespace
}  // namespace uroce

int main(int count, char** values) {
  using uroce::floor_burst, uroce::floor_dependent, uroce::table_burst, uroce::table_dependent;
  // Size by size: one pair of tables at a time.
  for (const int64_t live : {1 << 10, 1 << 20, 1 << 24}) {
    benchmark::RegisterBenchmark("key_lookup/floor/dependent", floor_dependent)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/table/dependent", table_dependent)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/floor/burst", floor_burst)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/table/burst", table_burst)->Arg(live);
  }
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
