#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "copy/placer.h"

// Bytes per second from packets that are in cache to registered memory, through the placer with each kind of
// copy and, as the floor, by memcpy in the same pieces. `hot`: 256 KiB written over and over. `cold`: 512
// MiB, so that each line comes from memory. A burst is 32 packets; it is one message, or 32 messages of one
// packet each.

namespace uroce {
namespace {

constexpr size_t kBurst = 32;
constexpr size_t kPayloadOffset = 54;
constexpr size_t kSourceStride = 4096 + 192;
constexpr size_t kHotBytes = 256 << 10;
constexpr size_t kColdBytes = 512 << 20;

/// Packets in cache and a target in memory, shared by all benchmarks.
struct Buffers {
  std::byte* source = map(kBurst * kSourceStride);
  std::byte* target = map(kColdBytes);

  static std::byte* map(size_t bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::madvise(at, bytes, MADV_HUGEPAGE);
    std::memset(at, 1, bytes);
    return static_cast<std::byte*>(at);
  }
};

Buffers& buffers() {
  static Buffers buffers;
  return buffers;
}

/// Calls burst(target) until the time is up; the targets walk through memory.
template <typename Burst>
void walk(benchmark::State& state, bool cold, Burst burst) {
  const auto packet = static_cast<size_t>(state.range(0));
  const size_t bytes = cold ? kColdBytes : kHotBytes;
  size_t at = 0;
  for (auto _ : state) {
    burst(buffers().target + at, packet);
    at = (at + kBurst * packet) % bytes;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBurst * packet));
}

const std::byte* payload(size_t packet_number) {
  return buffers().source + packet_number * kSourceStride + kPayloadOffset;
}

void floor_memcpy(benchmark::State& state, bool cold) {
  walk(state, cold, [](std::byte* to, size_t packet) {
    for (size_t i = 0; i < kBurst; ++i) std::memcpy(to + i * packet, payload(i), packet);
    benchmark::ClobberMemory();
  });
}

void placer_messages(benchmark::State& state, copy::Kind kind, bool cold) {
  copy::Placer placer(kind);
  walk(state, cold, [&](std::byte* to, size_t packet) {
    for (size_t i = 0; i < kBurst; ++i) placer.place_last(to + i * packet, payload(i), packet, cold);
    placer.commit();
  });
}

void placer_one_message(benchmark::State& state, copy::Kind kind, bool cold) {
  copy::Placer placer(kind);
  walk(state, cold, [&](std::byte* to, size_t packet) {
    for (size_t i = 0; i + 1 < kBurst; ++i) placer.place(to + i * packet, payload(i), packet, cold);
    placer.place_last(to + (kBurst - 1) * packet, payload(kBurst - 1), packet, cold);
    placer.commit();
  });
}

void register_all(bool cold) {
  const std::string where = cold ? "cold" : "hot";
  const auto with_lengths = [](benchmark::internal::Benchmark* it) {
    it->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
  };
  with_lengths(benchmark::RegisterBenchmark(("copy/" + where + "/floor_memcpy").c_str(), floor_memcpy, cold));
  for (const copy::KindRow& row : copy::kinds()) {
    const std::string kind(row.name);
    with_lengths(benchmark::RegisterBenchmark(("copy/" + where + "/" + kind + "/one_message").c_str(),
                                              placer_one_message, row.kind, cold));
    with_lengths(benchmark::RegisterBenchmark(("copy/" + where + "/" + kind + "/messages").c_str(),
                                              placer_messages, row.kind, cold));
  }
}

}  // namespace
}  // namespace uroce

int main(int count, char** values) {
  uroce::register_all(false);
  uroce::register_all(true);
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  uroce::buffers();  // filled before the clock starts
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
