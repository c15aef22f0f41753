#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/platform/parallel_probe.h"
#include "mem/keys/region_table.h"
#include "mem/regions/fmr_pool.h"

// What it costs to register memory and to end that, beside the floor: the kernel filling in and locking the
// same range, and unlocking it. `4K` and `1G_hugepages` are there already, in pages of 4 KB and 2 MB;
// `1G_empty` and `64G_reserved` are not, which registration leaves so; the floor of the first fills it in.
// Then the FMR pool: pages that are found in its cache, and such that never are; and the memory that a region
// takes.

namespace uroce {
namespace {

constexpr uint64_t kSmall = 4096;
constexpr uint64_t kLarge = 1ull << 30;
constexpr int kHugepages = MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;

constexpr const char* kNoMemory = "there is no such memory; of 2 MB it takes 512 free pages";

class Memory {
 public:
  Memory(uint64_t length, int flags) : length_(length) {
    data_ = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  }
  ~Memory() {
    if (there()) ::munmap(data_, length_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] bool there() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] bool fill() const { return ::madvise(data_, length_, MADV_POPULATE_WRITE) == 0; }
  void empty() const { ::madvise(data_, length_, MADV_DONTNEED); }

 private:
  void* data_ = nullptr;
  uint64_t length_ = 0;
};

struct Tables {
  engine::ParallelProbe prober;
  mem::LockedMemory locked;
  mem::BusSpace bus{{}};
  mem::RegionTable regions{{.locked_memory = &locked, .prober = &prober, .bus_space = &bus}};
};

mem::UserRegion region_of(const Memory& memory) {
  return {.domain = {1},
          .address = memory.data(),
          .length = memory.length(),
          .access = mem::kLocalWrite | mem::kRemoteWrite};
}

/// `ready`: before each registration, outside of the time that is taken.
template <typename Ready>
void register_and_end(benchmark::State& state, const Memory& memory, Ready ready) {
  if (!memory.there()) return state.SkipWithError(kNoMemory);
  Tables tables;
  for (auto _ : state) {
    ready();
    const auto keys = tables.regions.register_user(region_of(memory));
    if (!keys.ok() || !tables.regions.deregister(keys->lkey).ok()) state.SkipWithError("refused");
  }
}

void lock_and_unlock(benchmark::State& state, const Memory& memory) {
  if (!memory.there()) return state.SkipWithError(kNoMemory);
  for (auto _ : state) {
    if (!memory.fill() || ::mlock(memory.data(), memory.length()) != 0 ||
        ::munlock(memory.data(), memory.length()) != 0) {
      return state.SkipWithError("it cannot be locked");
    }
  }
}

void user_present(benchmark::State& state, uint64_t length, int flags) {
  const Memory memory(length, flags);
  if (memory.there() && !memory.fill()) return state.SkipWithError(kNoMemory);
  register_and_end(state, memory, [] {});
}

void floor_present(benchmark::State& state, uint64_t length, int flags) {
  const Memory memory(length, flags);
  if (memory.there() && !memory.fill()) return state.SkipWithError(kNoMemory);
  lock_and_unlock(state, memory);
}

void user_empty(benchmark::State& state, uint64_t length) {
  const Memory memory(length, MAP_NORESERVE);
  register_and_end(state, memory, [&] {
    state.PauseTiming();
    memory.empty();
    state.ResumeTiming();
  });
}

void floor_empty(benchmark::State& state) {
  const Memory memory(kLarge, MAP_NORESERVE);
  for (auto _ : state) {
    state.PauseTiming();
    memory.empty();
    state.ResumeTiming();
    if (!memory.fill()) return state.SkipWithError("it cannot be filled in");
  }
}

/// Maps and gives back, one page after the other of `pages`.
void fmr_pool(benchmark::State& state, size_t pages) {
  constexpr uint32_t kPool = 64;
  Tables tables;
  const Memory memory(pages * kSmall, 0);
  std::vector<uint64_t> bus;
  for (size_t i = 0; i < pages; ++i)
    bus.push_back(tables.bus.map(memory.data() + i * kSmall, kSmall, mem::Direction::kBidirectional).value());
  auto pool = mem::FmrPool::make(
      tables.regions,
      {.fmr = {.domain = {1}, .access = mem::kRemoteRead, .pages_max = 1, .maps_max = 32, .page_shift = 12},
       .size = kPool,
       .dirty_watermark = kPool / 2,
       .cache = true});
  size_t at = 0;
  const auto map_and_give_back = [&] {
    const auto fmr = (*pool)->map({&bus[at++ % pages], 1}, 0);
    return fmr.ok() && (*pool)->unmap(**fmr).ok();
  };
  for (size_t i = 0; i < pages; ++i) map_and_give_back();
  for (auto _ : state) {
    if (!map_and_give_back()) return state.SkipWithError("refused");
  }
  const mem::FmrPool::Statistics statistics = (*pool)->statistics();
  if ((pages > kPool) == (statistics.hits != 0)) state.SkipWithError("the cache does not do its part");
  if (!(*pool)->end().ok()) state.SkipWithError("the pool does not end");
}

uint64_t kilobytes_of(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == name && status >> kilobytes) return kilobytes;
  }
  return 0;
}

/// Memory of the process, in pages of any size.
uint64_t bytes_in_use() { return (kilobytes_of("RssAnon:") + kilobytes_of("HugetlbPages:")) * 1024; }

/// The stack's own, without what the application's face of a region takes.
void memory_per_region(benchmark::State& state) {
  constexpr size_t kRegions = 1 << 18;
  const Memory memory(kSmall, 0);
  if (!memory.fill()) return state.SkipWithError("no memory");
  double bytes = 0;
  for (auto _ : state) {
    ::malloc_trim(0);
    const auto tables = std::make_unique<Tables>();
    const uint64_t before = bytes_in_use();
    for (size_t i = 0; i < kRegions; ++i) {
      if (!tables->regions.register_user(region_of(memory)).ok()) return state.SkipWithError("refused");
    }
    bytes = static_cast<double>(bytes_in_use() - before) / kRegions;
  }
  state.counters["bytes_per_region"] = bytes;
}

}  // namespace
}  // namespace uroce

int main(int count, char** values) {
  using namespace uroce;
  const auto add = [](const char* name, auto body) {
    return benchmark::RegisterBenchmark(name, body)->UseRealTime();
  };
  add("registration/user/4K", [](benchmark::State& s) { user_present(s, kSmall, 0); });
  add("registration/floor_mlock/4K", [](benchmark::State& s) { floor_present(s, kSmall, 0); });
  add("registration/user/1G_hugepages", [](benchmark::State& s) { user_present(s, kLarge, kHugepages); });
  add("registration/floor_mlock/1G_hugepages",
      [](benchmark::State& s) { floor_present(s, kLarge, kHugepages); });
  add("registration/user/1G_empty", [](benchmark::State& s) { user_empty(s, kLarge); });
  add("registration/user/64G_reserved", [](benchmark::State& s) { user_empty(s, 64 * kLarge); });
  add("registration/floor_populate/1G_empty", floor_empty)->Iterations(2);
  add("registration/fmr_pool/hit", [](benchmark::State& s) { fmr_pool(s, 16); });
  add("registration/fmr_pool/miss", [](benchmark::State& s) { fmr_pool(s, 4096); });
  add("registration/memory/user", memory_per_region)->Iterations(1);
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
