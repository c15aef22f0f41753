#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <isa-l/crc.h>
#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "copy/placer.h"
#include "mem/keys/region_table.h"
#include "perf/micro/fused_copy.h"
#include "qp/queue_pair/queue_pair.h"
#include "wire/frame.h"
#include "wire/icrc/icrc.h"
#include "wire/packet.h"

// Bytes per second from packets that are in cache to registered memory, through what a poller does with each
// of them behind its parser: the ICRC is verified, the queue pair's responder checks and places the packet in
// the order that a watching CPU may rely on, and the burst is committed and acknowledged. Bursts of 32 WRITE
// packets of 4 KiB: two messages of 64 KiB, or 32 messages of one packet each. `cold`: into 512 MiB, so that
// each line comes from memory; `hot`: into 1 MiB over and over.
//
// Beside it what only copies the same bytes (`memcpy`), what computes the CRC and then copies (`crc_memcpy`,
// ISA-L's, and `icrc_memcpy`, ours), and kernels that do both in one pass with streaming stores (`fused`).
// They neither order their stores nor know of messages.

namespace uroce {
namespace {

constexpr size_t kBurst = 32;
constexpr size_t kPayload = 4096;
constexpr size_t kFrameStride = kPayload + 192;
constexpr size_t kLongMessage = 16;  // packets
constexpr size_t kColdBytes = 512 << 20;
constexpr size_t kHotBytes = 1 << 20;

constexpr size_t kHeaders = 40;  // of IPv4, UDP and BTH, which the ICRC covers

constexpr QpNumber kOurs{0x11};
constexpr QpNumber kPeers{0x22};
constexpr DomainId kDomain{1};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "placement_bench: %s\n", what);
  std::exit(1);
}

std::byte* map(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("no memory");
  ::madvise(at, bytes, MADV_HUGEPAGE);
  std::memset(at, 1, bytes);
  return static_cast<std::byte*>(at);
}

/// Takes the acknowledgements.
class NoPort final : public port::PortQueue {
 public:
  uint16_t receive(std::span<port::RxFrame>) override { return 0; }
  void release(std::span<const port::RxFrame>) override {}
  uint16_t allocate(std::span<port::TxFrame> frames) override {
    for (port::TxFrame& frame : frames)
      frame = {.data = buffer_.data(), .capacity = static_cast<uint32_t>(buffer_.size())};
    return static_cast<uint16_t>(frames.size());
  }
  uint16_t transmit(std::span<const port::TxFrame> frames) override {
    return static_cast<uint16_t>(frames.size());
  }
  void free(std::span<const port::TxFrame>) override {}
  port::RxFrame loop(const port::TxFrame&) override { return {}; }

 private:
  std::array<std::byte, kFrameStride> buffer_{};
};

/// What a packet's number and address add to its ICRC, which is linear: so a packet of the burst becomes the
/// next one without a look at all its bytes.
class Differences {
 public:
  Differences() = default;
  /// Takes an IP packet as long as `like`, of which `bytes` bytes from `at` on change.
  Differences(std::span<const std::byte> like, size_t at, size_t bytes) : tables_(bytes) {
    std::vector<std::byte> packet(like.size());
    packet[0] = like[0];
    const uint32_t zero = wire::icrc_of(packet);
    for (size_t i = 0; i < bytes; ++i) {
      for (unsigned value = 0; value < 256; ++value) {
        packet[at + i] = static_cast<std::byte>(value);
        tables_[i][value] = wire::icrc_of(packet) ^ zero;
      }
      packet[at + i] = std::byte{0};
    }
  }
  /// Writes `value`, most significant byte first; what it adds to the ICRC of zeros.
  uint32_t write(std::byte* to, uint64_t value) const {
    uint32_t difference = 0;
    for (size_t i = tables_.size(); i-- > 0; value >>= 8) {
      to[i] = static_cast<std::byte>(value);
      difference ^= tables_[i][value & 0xFF];
    }
    return difference;
  }

 private:
  std::vector<std::array<uint32_t, 256>> tables_;
};

/// Packets in cache, of which each burst is made.
class Burst {
 public:
  Burst(size_t packets_per_message, MemoryKey rkey, const wire::Path& path)
      : frames_(map(kBurst * kFrameStride)) {
    for (size_t i = 0; i < kBurst; ++i) make(i, packets_per_message, rkey, wire::FrameTemplate(path));
    const std::span<const std::byte> with_address = packets_[0].ip_packet;
    const std::span<const std::byte> without = packets_[1].ip_packet;
    number_with_address_ = Differences(with_address, number_at_, 3);
    number_without_ = Differences(without, number_at_, 3);
    address_ = Differences(with_address, number_at_ + 3, 8);
  }
  ~Burst() { ::munmap(frames_, kBurst * kFrameStride); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  [[nodiscard]] std::span<const std::byte> first_payload() const { return packets_[0].payload; }

  /// A burst as it comes, from PSN `first` on, of messages that follow one another from `address` on.
  [[nodiscard]] std::span<const wire::Packet> next(Psn first, uint64_t address) {
    for (size_t i = 0; i < kBurst; ++i) set(i, first + static_cast<uint32_t>(i), address + i * kPayload);
    return packets_;
  }

 private:
  void set(size_t i, Psn psn, uint64_t address) {
    wire::Packet& packet = packets_[i];
    // The span is of a frame of ours.
    std::byte* const number = const_cast<std::byte*>(packet.ip_packet.data()) + number_at_;
    const bool begins = packet.row->headers.has(wire::Header::kReth);
    packet.headers.bth.psn = psn;
    packet.icrc =
        zero_icrc_[i] ^ (begins ? number_with_address_ : number_without_).write(number, psn.value());
    if (begins) {
      packet.headers.reth.address = address;
      packet.icrc ^= address_.write(number + 3, address);
    }
  }

  void make(size_t i, size_t packets_per_message, MemoryKey rkey, const wire::FrameTemplate& path) {
    const size_t position = i % packets_per_message;
    const bool last = position + 1 == packets_per_message;
    wire::Headers headers;
    headers.bth.opcode =
        wire::Opcode::make(wire::Service::kRc, packets_per_message == 1 ? wire::Operation::kWriteOnly
                                               : position == 0          ? wire::Operation::kWriteFirst
                                               : last                   ? wire::Operation::kWriteLast
                                                                        : wire::Operation::kWriteMiddle);
    headers.bth.destination = kOurs;
    headers.bth.ack_request = i + 1 == kBurst;
    headers.reth = {0, rkey, static_cast<uint32_t>(packets_per_message * kPayload)};
    const std::span<std::byte> frame(frames_ + i * kFrameStride, kFrameStride);
    std::byte* const payload = wire::write_headers(frame, path, headers, kPayload);
    for (size_t at = 0; at < kPayload; ++at) payload[at] = static_cast<std::byte>(at * 7 + i + 1);
    const uint32_t bytes = wire::finish_frame(frame, path, headers.bth.opcode, kPayload);
    if (wire::parse_frame(frame.first(bytes), packets_[i]).result != wire::ParseResult::kRoce)
      fail("a packet is not one");
    zero_icrc_[i] = packets_[i].icrc;
    number_at_ = path.bytes() - path.ip_offset() + 9;  // in the BTH, and the address right behind it
  }

  std::byte* const frames_;
  std::array<wire::Packet, kBurst> packets_;
  std::array<uint32_t, kBurst> zero_icrc_{};
  size_t number_at_ = 0;
  Differences number_with_address_, number_without_, address_;
};

wire::Path path_of_peer() {
  wire::Path path;
  path.source_mac = {{2, 0, 0, 0, 0, 2}};
  path.destination_mac = {{2, 0, 0, 0, 0, 1}};
  path.source = Gid::from_ipv4({192, 0, 2, 2});
  path.destination = Gid::from_ipv4({192, 0, 2, 1});
  return path;
}

/// A queue pair that is ready for the peer's WRITEs, and all that its turn touches.
class Receiver {
 public:
  Receiver(std::byte* memory, size_t bytes)
      : turn_{.now = Instant{1'000'000},
              .tx = tx_,
              .placer = placer_,
              .completions = completions_,
              .regions = regions_,
              .counters = counters_} {
    const auto keys = regions_.register_user({.domain = kDomain,
                                              .address = memory,
                                              .length = bytes,
                                              .access = mem::kLocalWrite | mem::kRemoteWrite});
    if (!keys) fail("the region cannot be registered");
    rkey_ = keys->rkey;
    qp::QueuePairOptions options;
    options.number = kOurs;
    options.domain = kDomain;
    options.send_queue = &sends_;
    options.receive_queue = &receives_;
    options.send_completions = options.receive_completions = &completion_queue_;
    queue_pair_ = std::make_unique<qp::QueuePair>(options);
    connect();
  }

  [[nodiscard]] MemoryKey rkey() const { return rkey_; }

  /// One burst, to `address` and on.
  void receive(Burst& burst, uint64_t address) {
    for (const wire::Packet& packet : burst.next(psn_, address)) {
      if (!wire::icrc_matches(packet)) fail("an ICRC is wrong");
      queue_pair_->receive(packet, turn_);
    }
    psn_ += kBurst;
    qp::commit_placements(turn_);
    completions_.publish_all();
    queue_pair_->pump(turn_, 2);
    tx_.consume(tx_.size());
  }

  void check() const {
    if (queue_pair_->state() != qp::State::kRtr) fail("the queue pair did not like a packet");
  }

 private:
  void connect() {
    using namespace qp;
    qp::Attributes attributes;
    attributes.access = mem::kRemoteWrite;
    attributes.path = path_of_peer();
    std::swap(attributes.path.source, attributes.path.destination);
    std::swap(attributes.path.source_mac, attributes.path.destination_mac);
    attributes.path_mtu = PathMtu::k4096;
    attributes.destination = kPeers;
    attributes.min_rnr_timer = 1;
    modify(attributes, qp::State::kInit, kMaskAccessFlags | kMaskPkeyIndex | kMaskPort);
    modify(attributes, qp::State::kRtr,
           kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  }
  void modify(qp::Attributes& attributes, qp::State to, qp::AttributeMask mask) {
    attributes.state = to;
    if (queue_pair_->modify(attributes, mask | qp::kMaskState, turn_) != 0) fail("no transition");
  }

  mem::RegionTable regions_{{.entries_max = 1u << 10}};
  MemoryKey rkey_;
  queue::SendQueue sends_{{.depth = 1}};
  queue::ReceiveQueue receives_{{.depth = 1}};
  queue::CompletionQueue completion_queue_{{.depth = 1}};
  NoPort port_;
  port::TxBatch tx_{port_};
  copy::Placer placer_{copy::Kind::kAuto};
  queue::CompletionBatch completions_{0};
  Counters counters_;
  qp::Turn turn_;
  std::unique_ptr<qp::QueuePair> queue_pair_;
  Psn psn_;
};

std::byte* target() {
  static std::byte* const memory = map(kColdBytes);
  return memory;
}

/// Calls burst(offset of the target) until the time is up.
template <typename DoBurst>
void walk(benchmark::State& state, size_t bytes, DoBurst burst) {
  size_t at = 0;
  for (auto _ : state) {
    burst(at);
    at = (at + kBurst * kPayload) % bytes;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBurst * kPayload));
}

void responder(benchmark::State& state, size_t bytes, size_t packets_per_message) {
  Receiver receiver(target(), bytes);
  Burst burst(packets_per_message, receiver.rkey(), path_of_peer());
  std::memset(target(), 0, kPayload);
  walk(state, bytes, [&](size_t at) { receiver.receive(burst, at); });
  receiver.check();
  if (std::memcmp(target(), burst.first_payload().data(), kPayload) != 0) fail("not what the packets held");
}

/// `copy` each payload in turn, from where it is in a frame.
template <typename Copy>
void only(benchmark::State& state, size_t bytes, Copy copy) {
  constexpr size_t kOffset = 54;
  std::byte* const frames = map(kBurst * kFrameStride);
  for (size_t i = 0; i < kBurst; ++i) frames[i * kFrameStride + kOffset - kHeaders] = std::byte{0x45};
  uint32_t sum = 0;
  walk(state, bytes, [&](size_t at) {
    for (size_t i = 0; i < kBurst; ++i)
      sum ^= copy(target() + at + i * kPayload, frames + i * kFrameStride + kOffset);
    _mm_sfence();
    benchmark::ClobberMemory();
  });
  benchmark::DoNotOptimize(sum);
  ::munmap(frames, kBurst * kFrameStride);
}

/// The C library's: of a length that the compiler knows it would make instructions of its own.
void library_copy(std::byte* to, const std::byte* from) {
  size_t length = kPayload;
  benchmark::DoNotOptimize(length);
  std::memcpy(to, from, length);
}

uint32_t crc_of(const std::byte* bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes), kPayload);
}

void check_fused() {
  std::vector<std::byte> from(kPayload);
  for (size_t i = 0; i < kPayload; ++i) from[i] = static_cast<std::byte>(i * i + i / 7);
  for (const perf::FusedCopyRow& row : perf::fused_copies()) {
    if (row.copy(target(), from.data(), kPayload) != crc_of(from.data()) ||
        std::memcmp(target(), from.data(), kPayload) != 0)
      fail("a fused copy is wrong");
  }
}

void register_all(const std::string& where, size_t bytes) {
  const std::string prefix = "placement/" + where + "/";
  const auto add = [&](const std::string& name, auto run) {
    benchmark::RegisterBenchmark((prefix + name).c_str(), run);
  };
  add("memcpy", [bytes](benchmark::State& state) {
    only(state, bytes, [](std::byte* to, const std::byte* from) {
      library_copy(to, from);
      return 0u;
    });
  });
  add("crc_memcpy", [bytes](benchmark::State& state) {
    only(state, bytes, [](std::byte* to, const std::byte* from) {
      const uint32_t crc = crc_of(from);
      library_copy(to, from);
      return crc;
    });
  });
  add("icrc_memcpy", [bytes](benchmark::State& state) {
    only(state, bytes, [](std::byte* to, const std::byte* from) {
      const uint32_t icrc = wire::icrc_of({from - kHeaders, kHeaders + kPayload});
      library_copy(to, from);
      return icrc;
    });
  });
  for (const perf::FusedCopyRow& row : perf::fused_copies()) {
    add(std::string("fused_") + row.name, [bytes, copy = row.copy](benchmark::State& state) {
      only(state, bytes, [copy](std::byte* to, const std::byte* from) { return copy(to, from, kPayload); });
    });
  }
  add("long_messages", [bytes](benchmark::State& state) { responder(state, bytes, kLongMessage); });
  add("one_packet", [bytes](benchmark::State& state) { responder(state, bytes, 1); });
}

}  // namespace
}  // namespace uroce

int main(int count, char** values) {
  uroce::register_all("cold", uroce::kColdBytes);
  uroce::register_all("hot", uroce::kHotBytes);
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  uroce::check_fused();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
