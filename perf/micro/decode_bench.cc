#include <benchmark/benchmark.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/decode/capture_file.h"
#include "apps/decode/decoder.h"
#include "apps/decode/inspection.h"
#include "wire/frame.h"
#include "wire/header_sizes.h"

// What `uroce decode --summary` makes of a capture, on one thread, beside its floor: reading the file by
// libpcap and a CRC of each packet. The file is of SENDs of so many bytes, on 16 connections, with an ACK for
// each 16 of them.
namespace uroce::decode {
namespace {

constexpr size_t kFileBytes = 64u << 20;
constexpr uint32_t kConnections = 16;
constexpr uint32_t kRun = 16;
constexpr size_t kBatchBytes = 256u << 10;  // as the decoder reads

class Capture {
 public:
  explicit Capture(uint32_t payload_bytes)
      : path_(std::filesystem::temp_directory_path() / ("uroce-decode-bench." + std::to_string(getpid()))) {
    pcap_t* const form = pcap_open_dead(DLT_EN10MB, 1 << 16);
    pcap_dumper_t* const out = pcap_dump_open(form, path_.c_str());
    if (out == nullptr) throw std::runtime_error(pcap_geterr(form));
    for (uint32_t psn = 0; bytes_ < kFileBytes; psn += kRun) {
      for (uint32_t one = 0; one < kConnections; ++one) {
        for (uint32_t i = 0; i < kRun; ++i)
          add(out, true, one, wire::Operation::kSendOnly, psn + i, payload_bytes);
        add(out, false, one, wire::Operation::kAcknowledge, psn + kRun - 1, 0);
      }
    }
    pcap_dump_close(out);
    pcap_close(form);
  }
  ~Capture() { std::filesystem::remove(path_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void add(pcap_dumper_t* out, bool forth, uint32_t connection, wire::Operation operation, uint32_t psn,
           uint32_t payload_bytes) {
    const Gid ends[] = {Gid::from_ipv4({192, 0, 2, 1}), Gid::from_ipv4({192, 0, 2, 2})};
    wire::FrameTemplate path({.source = ends[forth ? 0 : 1], .destination = ends[forth ? 1 : 0]});
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, operation);
    headers.bth.destination = {(forth ? 0x200u : 0x100u) + connection};
    headers.bth.psn = Psn(psn);
    headers.aeth = wire::Aeth::ack(psn + 1);
    path.set_peer(0xFFFF, headers.bth.destination, true);
    frame_.resize(wire::frame_bytes(path, headers.bth.opcode, payload_bytes));
    std::memset(wire::write_headers(frame_, path, headers, payload_bytes), static_cast<int>(psn),
                payload_bytes);
    wire::finish_frame(frame_, path, headers.bth.opcode, payload_bytes);
    const auto bytes = static_cast<uint32_t>(frame_.size());
    const pcap_pkthdr header{.ts = {.tv_sec = 0, .tv_usec = psn}, .caplen = bytes, .len = bytes};
    pcap_dump(reinterpret_cast<u_char*>(out), &header, reinterpret_cast<const u_char*>(frame_.data()));
    bytes_ += bytes;
  }

  std::string path_;
  std::vector<std::byte> frame_;
  size_t bytes_ = 0;
};

CaptureFile open(const Capture& capture) {
  auto file = CaptureFile::open(capture.path());
  if (!file) throw std::runtime_error(file.error().message);
  return std::move(*file);
}

void floor_read_and_crc(benchmark::State& state) {
  const Capture capture(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    std::array<char, PCAP_ERRBUF_SIZE> error{};
    pcap_t* const file = pcap_open_offline(capture.path().c_str(), error.data());
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    while (pcap_next_ex(file, &header, &data) == 1) {
      const std::span frame(reinterpret_cast<const std::byte*>(data), header->caplen);
      benchmark::DoNotOptimize(wire::icrc_of(
          frame.subspan(wire::kEthernetBytes, frame.size() - wire::kEthernetBytes - wire::kIcrcBytes)));
    }
    pcap_close(file);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(capture.bytes()));
}

void summary(benchmark::State& state) {
  const Capture capture(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    CaptureFile file = open(capture);
    Connections connections({.low = 1, .high = 2});
    const Totals totals = decode(file, {.lines = Lines::kNo, .threads = 1, .on_frame = {}}, connections);
    if (totals.findings() != 0 || totals.roce != totals.frames)
      return state.SkipWithError("something is found in it");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(capture.bytes()));
}

/// The stage that is not parallel: connections, of packets that have been looked at.
void follow(benchmark::State& state) {
  const Capture capture(static_cast<uint32_t>(state.range(0)));
  CaptureFile file = open(capture);
  std::vector<std::vector<Inspected>> batches;
  Frames frames;
  for (file.read(frames, kBatchBytes); !frames.records.empty(); file.read(frames, kBatchBytes)) {
    inspect(frames, Lines::kNo, batches.emplace_back());
    frames.clear();
  }
  for (auto _ : state) {
    Connections connections({.low = 1, .high = 2});
    std::string note;
    for (std::vector<Inspected>& batch : batches) {
      for (Inspected& packet : batch) {
        note.clear();
        connections.receive(packet, note);
        if (!packet.findings.empty()) return state.SkipWithError("something is found in it");
      }
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(capture.bytes()));
}

BENCHMARK(floor_read_and_crc)->Name("decode/floor_read_and_crc")->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(summary)->Name("decode/summary")->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(follow)->Name("decode/follow")->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace uroce::decode

BENCHMARK_MAIN();
