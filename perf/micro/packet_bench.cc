#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "wire/frame.h"
#include "wire/packet.h"

// What one packet's headers cost, in and out, without its ICRC: an ACK, a WRITE Only, a UD SEND over IPv6.
namespace uroce::wire {
namespace {

struct Kind {
  const char* name;
  Opcode opcode;
  uint32_t payload_bytes;
  bool ipv4;
};

constexpr std::array kKinds = {
    Kind{"RC ACK", Opcode::make(Service::kRc, Operation::kAcknowledge), 0, true},
    Kind{"RC WRITE Only 1024", Opcode::make(Service::kRc, Operation::kWriteOnly), 1024, true},
    Kind{"UD SEND Only 64 IPv6", Opcode::make(Service::kUd, Operation::kSendOnly), 64, false},
};

FrameTemplate make_template(const Kind& kind) {
  Path path;
  if (kind.ipv4) {
    path.source = Gid::from_ipv4({198, 51, 100, 1});
    path.destination = Gid::from_ipv4({198, 51, 100, 2});
  } else {
    path.source.bytes = {0xFE, 0x80};
    path.destination.bytes = {0xFE, 0x80};
  }
  return FrameTemplate(path);
}

Headers make_headers(const Kind& kind) {
  Headers headers;
  headers.bth.opcode = kind.opcode;
  return headers;
}

void parse(benchmark::State& state) {
  const Kind& kind = kKinds[static_cast<size_t>(state.range(0))];
  const FrameTemplate path = make_template(kind);
  std::vector<std::byte> frame(frame_bytes(path, kind.opcode, kind.payload_bytes));
  write_headers(frame, path, make_headers(kind), kind.payload_bytes);
  finish_frame(frame, path, kind.opcode, kind.payload_bytes);
  Packet packet;
  for (auto _ : state) {
    benchmark::DoNotOptimize(parse_frame(frame, packet));
    benchmark::DoNotOptimize(packet);
    benchmark::ClobberMemory();
  }
  state.SetLabel(kind.name);
}

void emit(benchmark::State& state) {
  const Kind& kind = kKinds[static_cast<size_t>(state.range(0))];
  const FrameTemplate path = make_template(kind);
  const Headers headers = make_headers(kind);
  std::vector<std::byte> frame(frame_bytes(path, kind.opcode, kind.payload_bytes));
  for (auto _ : state) {
    benchmark::DoNotOptimize(write_headers(frame, path, headers, kind.payload_bytes));
    benchmark::ClobberMemory();
  }
  state.SetLabel(kind.name);
}

BENCHMARK(parse)->DenseRange(0, kKinds.size() - 1);
BENCHMARK(emit)->DenseRange(0, kKinds.size() - 1);

}  // namespace
}  // namespace uroce::wire

BENCHMARK_MAIN();
