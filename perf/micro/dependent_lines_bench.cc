// What it takes to follow a pointer into memory that caches lack: lines that each say where the next one is,
// in random order, in huge pages if the kernel has any.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

struct alignas(64) Line {
  const Line* next;
};
struct Free {
  void operator()(Line* lines) const { std::free(lines); }
};
using Lines = std::unique_ptr<Line, Free>;

/// All of them are one cycle.
Lines make_lines(size_t count) {
  Lines lines(static_cast<Line*>(std::aligned_alloc(kHugePageBytes, count * sizeof(Line))));
  if (lines == nullptr) return lines;
  (void)madvise(lines.get(), count * sizeof(Line), MADV_HUGEPAGE);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (size_t i = 0; i < count; ++i)
    lines.get()[order[i]].next = lines.get() + order[i + 1 < count ? i + 1 : 0];
  return lines;
}

void dependent_lines(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0)) << 20 >> 6;
  const Lines lines = make_lines(count);
  if (lines == nullptr) return state.SkipWithError("no memory");
  const Line* at = lines.get();
  for ([[maybe_unused]] auto turn : state) {
    at = at->next;
    benchmark::DoNotOptimize(at);
  }
}
// Megabytes.
BENCHMARK(dependent_lines)->Arg(1)->Arg(64)->Arg(1024);

}  // namespace

BENCHMARK_MAIN();
