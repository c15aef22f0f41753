#include <benchmark/benchmark.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/tables/index_space.h"
#include "base/values/random.h"
#include "mem/keys/region_table.h"

// Nanoseconds per lookup of a key with all checks (key, domain, rights, state, range), as the responder does
// it: random keys and offsets over live user regions, and what comes out is used. Beside it the floor, the
// same walk over a bare array of 64-byte lines, and DPDK's rte_hash with the same checks on what it finds.
// `burst`: the lines of 32 keys are on their way before the first is looked at, as in a poller's burst.
// `dependent`: each result decides the next key.

namespace uroce {
namespace {

constexpr size_t kBurst = 32;
constexpr size_t kKeys = 1 << 16;  // in the order in which they are looked up
constexpr uint64_t kRegionBytes = 4096;
constexpr uint64_t kAccessBytes = 64;
constexpr mem::KeyUser kUser{.domain = {1}};
constexpr HashKey kOrder{1, 2};  // keys in an order that cannot be foretold, as a device has them

/// A region as a program with rte_hash would keep it.
struct alignas(64) HashedRegion {
  uint32_t domain;
  uint32_t access;
  bool bound;
  uint64_t iova;
  uint64_t length;
  std::byte* memory;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "key_lookup_bench: %s\n", what);
  std::exit(1);
}

/// Ordinary pages become huge ones where the kernel will. (IndexSpace asks for that itself.)
void advise_hugepages(void* memory, size_t bytes) {
  constexpr size_t kPage = 4096;
  const auto start = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  (void)::madvise(reinterpret_cast<void*>(start), bytes / kPage * kPage, MADV_HUGEPAGE);
}

class Hash {
 public:
  explicit Hash(const std::vector<uint32_t>& keys, std::byte* memory) : regions_(keys.size()) {
    start_eal();
    advise_hugepages(regions_.data(), regions_.size() * sizeof(HashedRegion));
    // Room beyond the keys, or the last of them would not find a place; and not less than it takes.
    const rte_hash_parameters parameters{.name = "keys",
                                         .entries = static_cast<uint32_t>(keys.size() + keys.size() / 4 + 8),
                                         .key_len = sizeof(uint32_t),
                                         .hash_func = rte_hash_crc};
    table_ = rte_hash_create(&parameters);
    if (table_ == nullptr) fail("rte_hash_create");
    for (size_t i = 0; i < keys.size(); ++i) {
      regions_[i] = {1, mem::kRemoteRead.bits(), true, 0, kRegionBytes, memory};
      if (rte_hash_add_key_data(table_, &keys[i], &regions_[i]) != 0) fail("rte_hash_add_key_data");
    }
  }
  ~Hash() { rte_hash_free(table_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  [[nodiscard]] const rte_hash* table() const { return table_; }

 private:
  static void start_eal() {
    static const bool started = [] {
      std::array<std::string, 8> arguments{
          "key_lookup_bench", "--no-huge",        "-m", "8192", "--no-pci", "--no-shconf",
          "--no-telemetry",   "--log-level=error"};
      std::vector<char*> pointers;
      for (std::string& argument : arguments) pointers.push_back(argument.data());
      if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) fail("EAL does not start");
      rte_memseg_list_walk(
          [](const rte_memseg_list* list, void*) {
            advise_hugepages(list->base_va, list->len);
            return 0;
          },
          nullptr);
      return true;
    }();
    (void)started;
  }

  std::vector<HashedRegion> regions_;
  rte_hash* table_ = nullptr;
};

/// `live` regions in the key table, lines in a bare array, and entries of a hash; and what to look up.
struct Tables {
  explicit Tables(uint32_t live)
      : regions({.entries_max = 1u << 24, .key = kOrder}),
        lines(1u << 24, IndexSpace::Pages::kHuge, {.key = kOrder}),
        memory(kRegionBytes),
        keys(kKeys),
        indexes(kKeys),
        offsets(kKeys) {
    std::vector<uint32_t> all;
    all.reserve(live);
    for (uint32_t i = 0; i < live; ++i) {
      const auto key = regions.make_entry({.kind = mem::RegionKind::kUser,
                                           .domain = kUser.domain,
                                           .access = mem::kRemoteRead,
                                           .length = kRegionBytes,
                                           .memory = memory.data()});
      if (!key) fail("no memory for the key table");
      all.push_back(key->value);
      *reinterpret_cast<uint64_t*>(lines.at(*lines.allocate())) = 0;
    }
    Random random(live);
    for (size_t i = 0; i < kKeys; ++i) {
      keys[i] = all[random.below(all.size())];
      indexes[i] = mem_key(i).index();
      offsets[i] = random.below(kRegionBytes - kAccessBytes);
    }
    hash = std::make_unique<Hash>(all, memory.data());
  }

  [[nodiscard]] MemoryKey mem_key(size_t i) const { return {keys[i]}; }

  mem::RegionTable regions;
  IndexSpace lines;
  std::vector<std::byte> memory;
  std::vector<uint32_t> keys;
  std::vector<uint32_t> indexes;
  std::vector<uint64_t> offsets;
  std::unique_ptr<Hash> hash;
};

Tables& tables(int64_t live) {
  static std::unique_ptr<Tables> tables;
  static int64_t size = 0;
  if (size != live) {
    tables.reset();
    // One less: index 0 is no region's.
    tables = std::make_unique<Tables>(static_cast<uint32_t>(std::min(live, int64_t{(1 << 24) - 1})));
    size = live;
  }
  return *tables;
}

void finish(benchmark::State& state, size_t lookups_per_iteration, const Tables& t) {
  const double lookups = static_cast<double>(state.iterations()) * static_cast<double>(lookups_per_iteration);
  state.counters["ns_per_lookup"] =
      benchmark::Counter(lookups * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetLabel(t.regions.hugepages() ? "hugepages" : "no hugepages");
}

uint64_t line_value(const IndexSpace& lines, uint32_t index) {
  return *reinterpret_cast<const volatile uint64_t*>(lines.at(index));
}

void floor_dependent(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  for (auto _ : state) at = (at + 1 + line_value(t.lines, t.indexes[at])) % kKeys;
  benchmark::DoNotOptimize(at);
  finish(state, 1, t);
}

void table_dependent(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  for (auto _ : state) {
    const mem::Binding binding =
        t.regions.resolve(t.mem_key(at), kUser, t.offsets[at], kAccessBytes, mem::kRemoteRead);
    // The offset itself is known before the lookup.
    at = (at + 1 + static_cast<size_t>(binding.piece(0).data - t.memory.data()) - t.offsets[at]) % kKeys;
  }
  benchmark::DoNotOptimize(at);
  finish(state, 1, t);
}

void floor_burst(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  uint64_t sum = 0;
  for (auto _ : state) {
    for (size_t i = at; i < at + kBurst; ++i) __builtin_prefetch(t.lines.at(t.indexes[i]));
    for (size_t i = at; i < at + kBurst; ++i) sum += line_value(t.lines, t.indexes[i]) + t.offsets[i];
    at = (at + kBurst) % kKeys;
  }
  benchmark::DoNotOptimize(sum);
  finish(state, kBurst, t);
}

void table_burst(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  uintptr_t sum = 0;
  bool all = true;
  for (auto _ : state) {
    for (size_t i = at; i < at + kBurst; ++i) t.regions.prefetch(t.mem_key(i));
    for (size_t i = at; i < at + kBurst; ++i) {
      const mem::Binding binding =
          t.regions.resolve(t.mem_key(i), kUser, t.offsets[i], kAccessBytes, mem::kRemoteRead);
      all &= binding.ok();
      sum += reinterpret_cast<uintptr_t>(binding.piece(0).data);
    }
    at = (at + kBurst) % kKeys;
  }
  benchmark::DoNotOptimize(sum);
  if (!all) state.SkipWithError("a key did not resolve");
  finish(state, kBurst, t);
}

/// Makes the checks of RegionTable::resolve().
std::byte* checked(const HashedRegion& region, uint64_t iova, uint64_t length, uint32_t needed) {
  const uint64_t offset = iova - region.iova;
  const bool right = region.domain == kUser.domain.value && (needed & ~region.access) == 0 && region.bound &&
                     iova >= region.iova && offset <= region.length && length <= region.length - offset;
  return right ? region.memory + offset : nullptr;
}

void hash_burst(benchmark::State& state) {
  Tables& t = tables(state.range(0));
  size_t at = 0;
  uintptr_t sum = 0;
  bool all = true;
  for (auto _ : state) {
    std::array<const void*, kBurst> keys;
    std::array<void*, kBurst> found;
    uint64_t hits = 0;
    for (size_t i = 0; i < kBurst; ++i) keys[i] = &t.keys[at + i];
    rte_hash_lookup_bulk_data(t.hash->table(), keys.data(), kBurst, &hits, found.data());
    all &= hits == (uint64_t{1} << kBurst) - 1;
    for (void* region : found) __builtin_prefetch(region);
    for (size_t i = 0; i < kBurst; ++i) {
      std::byte* data = checked(*static_cast<const HashedRegion*>(found[i]), t.offsets[at + i], kAccessBytes,
                                mem::kRemoteRead.bits());
      all &= data != nullptr;
      sum += reinterpret_cast<uintptr_t>(data);
    }
    at = (at + kBurst) % kKeys;
  }
  benchmark::DoNotOptimize(sum);
  if (!all) state.SkipWithError("a key was not found");
  finish(state, kBurst, t);
}

}  // namespace
}  // namespace uroce

int main(int count, char** values) {
  using uroce::floor_burst, uroce::floor_dependent, uroce::hash_burst, uroce::table_burst,
      uroce::table_dependent;
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  // Size by size: one set of tables at a time.
  for (const int64_t live : {1, 1 << 5, 1 << 10, 1 << 15, 1 << 20, 1 << 24}) {
    benchmark::RegisterBenchmark("key_lookup/floor/dependent", floor_dependent)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/table/dependent", table_dependent)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/floor/burst", floor_burst)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/table/burst", table_burst)->Arg(live);
    benchmark::RegisterBenchmark("key_lookup/rte_hash/burst", hash_burst)->Arg(live);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
