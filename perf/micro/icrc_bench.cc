#include <benchmark/benchmark.h>
#include <isa-l/crc.h>
#include <zlib.h>

#include <cstring>
#include <span>
#include <vector>

#include "wire/icrc/icrc.h"
#include "wire/icrc/short.h"
#include "wire/icrc/wide.h"

// The ICRC of one packet in L1 against memcpy of as many bytes: what checking costs beside moving. The size
// is that of the IP packet. `pieces`, `folding`, `wide_256` and `wide_512` are the ways in which icrc_of()
// does it, `isal` is the bare CRC without masking, `zlib` what plain code would take.
namespace uroce::wire {
namespace {

std::vector<std::byte> make_packet(size_t bytes) {
  std::vector<std::byte> packet(bytes);
  for (size_t i = 0; i < bytes; ++i) packet[i] = static_cast<std::byte>(i * 7 + 1);
  packet[0] = std::byte{0x45};
  return packet;
}

template <typename Work>
void measure(benchmark::State& state, Work work) {
  const std::vector<std::byte> packet = make_packet(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    uint32_t result = work(std::span(packet));
    benchmark::DoNotOptimize(result);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  std::vector<std::byte> to(static_cast<size_t>(state.range(0)));
  measure(state, [&](std::span<const std::byte> packet) {
    benchmark::DoNotOptimize(std::memcpy(to.data(), packet.data(), packet.size()));
    return 0u;
  });
}

void icrc(benchmark::State& state) { measure(state, icrc_of); }

void pieces(benchmark::State& state) {
  measure(state, [](std::span<const std::byte> packet) {
    Icrc icrc;
    icrc.add_masked_headers(packet.first(40));
    icrc.add(packet.subspan(40));
    return icrc.value();
  });
}

void folding(benchmark::State& state) {
  if (!has_short_icrc()) return state.SkipWithError("no PCLMULQDQ here");
  measure(state, short_icrc);
}

void wide(benchmark::State& state, bool possible, decltype(wide_icrc_256)* icrc_of_long) {
  if (!possible) return state.SkipWithError("this CPU cannot");
  if (static_cast<size_t>(state.range(0)) < kWideIcrcBytesMin) return state.SkipWithError("too short");
  measure(state, [&](std::span<const std::byte> packet) { return icrc_of_long(packet, {}); });
}

void wide_256(benchmark::State& state) { wide(state, has_wide_icrc_256(), wide_icrc_256); }
void wide_512(benchmark::State& state) { wide(state, has_wide_icrc_512(), wide_icrc_512); }

void isal(benchmark::State& state) {
  measure(state, [](std::span<const std::byte> packet) {
    return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(packet.data()), packet.size());
  });
}

void zlib(benchmark::State& state) {
  measure(state, [](std::span<const std::byte> packet) {
    const auto* data = reinterpret_cast<const Bytef*>(packet.data());
    return static_cast<uint32_t>(crc32(0, data, static_cast<uInt>(packet.size())));
  });
}

// 44 is an ACK, 64 and 128 are short requests, the rest path MTUs.
void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int bytes : {44, 64, 128, 256, 512, 1024, 2048, 4096}) benchmark->Arg(bytes);
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(icrc)->Apply(sizes);
BENCHMARK(pieces)->Apply(sizes);
BENCHMARK(folding)->Apply(sizes);
BENCHMARK(wide_256)->Apply(sizes);
BENCHMARK(wide_512)->Apply(sizes);
BENCHMARK(isal)->Apply(sizes);
BENCHMARK(zlib)->Apply(sizes);

}  // namespace
}  // namespace uroce::wire

BENCHMARK_MAIN();
