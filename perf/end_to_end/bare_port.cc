// What a port carries without any protocol: frames of a given size as fast as they go, and one frame there
// and back. The floor beside which uroce over the same port is measured. `copied` frames are filled from
// memory and emptied into memory; `placed` ones have a CRC as well, which the other end verifies before it
// places what is in the frame, in the order that a watching CPU may rely on, into a region of 512 MiB. With
// --peer-port one thread turns both ends, as `uroce perf` does in one process, or with --two-threads a second
// one turns the other end; with --responder the other end is another process.
//
//   bare_port --port net_ring0 --peer-port net_ring1 --bytes 138,4170
//   bare_port --port net_memif0,role=server,... --responder
//   bare_port --port net_memif0,role=client,... --bytes 138,4170
#include <fmt/format.h>
#include <isa-l/crc.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "apps/perf/histogram.h"
#include "drivers/registry.h"
#include "engine/configuration.h"
#include "engine/eal.h"
#include "perf/end_to_end/placed_region.h"
#include "port/port.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBurst = 32;

enum class Kind : uint8_t { kFlood, kFloodCopied, kFloodPlaced, kEndOfFlood, kPing, kBye };

/// Ethernet (broadcast, an experimental type), what the frame is, a number; then as many bytes as wanted.
struct Header {
  std::array<uint8_t, 12> addresses;
  std::array<uint8_t, 2> type;
  Kind kind;
  uint8_t round;  // of floods: its end is said again when a port that loses frames has lost it
  uint64_t number;
};
static_assert(sizeof(Header) == 24);

bool is_flood(Kind kind) {
  return kind == Kind::kFlood || kind == Kind::kFloodCopied || kind == Kind::kFloodPlaced;
}

uint32_t crc_of(const std::byte* bytes, size_t count) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes), count);
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// One end: a port's first queue, and memory of the size of the last-level cache that payload is copied from
/// and to.
class End {
 public:
  explicit End(const std::string& devargs) : memory_(kMemoryBytes) {
    auto opened = drivers::open_port({.devargs = devargs});
    if (!opened) throw std::runtime_error(opened.error().message);
    port_ = std::move(*opened);
    queue_ = &port_->queue(0);
  }

  void wait_for_link(std::chrono::seconds limit) {
    for (const auto start = Clock::now(); !port_->link_up() || port_->far_end() == port::FarEnd::kAway;) {
      if (Clock::now() - start > limit) throw std::runtime_error("the link does not come up");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// Frames of `bytes` with consecutive numbers, as many of `count` as the port takes now.
  uint16_t send(Kind kind, uint64_t number, uint32_t bytes, uint16_t count, uint8_t round = 0) {
    std::array<port::TxFrame, kBurst> frames;
    const std::span<port::TxFrame> wanted(frames.data(), count);
    const uint16_t got = queue_->allocate(wanted);
    for (uint16_t i = 0; i < got; ++i) {
      const Header header{.addresses = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 1},
                          .type = {0x88, 0xB5},
                          .kind = kind,
                          .round = round,
                          .number = number + i};
      std::memcpy(frames[i].data, &header, sizeof(header));
      if (kind == Kind::kFloodCopied || kind == Kind::kFloodPlaced) {
        std::memcpy(frames[i].data + sizeof(header), slot(number + i, bytes), bytes - sizeof(header));
      }
      if (kind == Kind::kFloodPlaced) {
        const uint32_t crc = crc_of(frames[i].data, bytes - sizeof(uint32_t));
        std::memcpy(frames[i].data + bytes - sizeof(crc), &crc, sizeof(crc));
      }
      frames[i].length = bytes;
    }
    const uint16_t sent = queue_->transmit(wanted.first(got));
    if (sent < got) queue_->free(wanted.subspan(sent, static_cast<size_t>(got - sent)));
    return sent;
  }

  void send_one(Kind kind, uint64_t number, uint32_t bytes, uint8_t round = 0) {
    while (send(kind, number, bytes, 1, round) == 0) {
    }
  }

  /// Hands every received frame of ours to `take` as (header, bytes).
  template <typename Take>
  size_t receive(Take take) {
    std::array<port::RxFrame, kBurst> frames;
    const uint16_t count = queue_->receive(frames);
    for (uint16_t i = 0; i < count; ++i) {
      Header header;
      if (frames[i].length < sizeof(header)) continue;
      std::memcpy(&header, frames[i].data, sizeof(header));
      if (header.type != std::array<uint8_t, 2>{0x88, 0xB5}) continue;
      if (header.kind == Kind::kFloodPlaced) {
        place(header, frames[i]);
      } else if (header.kind == Kind::kFloodCopied) {
        std::memcpy(slot(header.number, frames[i].length), frames[i].data + sizeof(header),
                    frames[i].length - sizeof(header));
      }
      take(header, frames[i].length);
    }
    region_.commit();
    queue_->release({frames.data(), count});
    return count;
  }

 private:
  void place(const Header& header, const port::RxFrame& frame) {
    uint32_t crc = 0;
    const size_t covered = frame.length - sizeof(crc);
    std::memcpy(&crc, frame.data + covered, sizeof(crc));
    if (crc != crc_of(frame.data, covered)) throw std::runtime_error("a CRC is wrong");
    region_.place(header.number, frame.data + sizeof(header), (covered - sizeof(header)) / 64 * 64);
  }

  // 128 slots, as `uroce perf` has messages outstanding.
  static constexpr size_t kSlots = 128;
  static constexpr size_t kMemoryBytes = kSlots * 16384;

  std::byte* slot(uint64_t number, uint32_t bytes) {
    return memory_.data() + number % kSlots * std::min<size_t>((bytes + 63) / 64 * 64, 16384);
  }

  std::unique_ptr<port::Port> port_;
  port::PortQueue* queue_;
  std::vector<std::byte> memory_;
  PlacedRegion region_;
};

/// Counts floods and answers.
class Responder {
 public:
  explicit Responder(End& end) : end_(end) {}

  /// False when the other end said goodbye.
  bool step() {
    bool more = true;
    end_.receive([&](const Header& header, uint32_t bytes) {
      if (is_flood(header.kind)) {
        ++flooded_;
      } else if (header.kind == Kind::kEndOfFlood) {
        if (header.round != round_) answer_ = std::exchange(flooded_, 0);
        round_ = header.round;
        end_.send_one(Kind::kEndOfFlood, answer_, bytes, round_);
      } else if (header.kind == Kind::kPing) {
        end_.send_one(Kind::kPing, header.number, bytes);
      } else {
        more = false;
      }
    });
    return more;
  }

 private:
  End& end_;
  uint64_t flooded_ = 0;
  uint64_t answer_ = 0;  // to the last end of a flood
  uint8_t round_ = 0;
};

class Initiator {
 public:
  /// `peer` is the other end when it is turned by this thread.
  Initiator(End& end, Responder* peer) : end_(end), peer_(peer) {}

  /// Frames per second that arrived.
  double flood(Kind kind, uint32_t bytes, double duration_s) {
    uint64_t sent = 0;
    const auto start = Clock::now();
    for (uint64_t turn = 0; turn % 16 != 0 || seconds(Clock::now() - start) < duration_s; ++turn) {
      sent += end_.send(kind, sent, bytes, kBurst);
      if (peer_ != nullptr) peer_->step();
    }
    const double flooded_for = seconds(Clock::now() - start);
    const auto [arrived, answered_in] = end_flood(bytes);
    const double elapsed = flooded_for + answered_in;
    if (arrived != sent) fmt::print(stderr, "bare_port: {} of {} frames were lost\n", sent - arrived, sent);
    return static_cast<double>(arrived) / elapsed;
  }

  Histogram ping(uint32_t bytes, double duration_s) {
    Histogram samples;
    const auto start = Clock::now();
    for (uint64_t number = 0; seconds(Clock::now() - start) < duration_s; ++number) {
      const auto sent_at = Clock::now();
      end_.send_one(Kind::kPing, number, bytes);
      if (answer(Kind::kPing, kLimitSeconds) != number) throw std::runtime_error(kNoAnswer);
      samples.record(static_cast<uint64_t>((Clock::now() - sent_at).count()));
    }
    return samples;
  }

  void part(uint32_t bytes) { end_.send_one(Kind::kBye, 0, bytes); }

 private:
  /// How many frames arrived, and seconds from the question that was answered to the answer.
  std::pair<uint64_t, double> end_flood(uint32_t bytes) {
    ++round_;
    for (double waited = 0; waited < kLimitSeconds; waited += kPatienceSeconds) {
      const auto start = Clock::now();
      end_.send_one(Kind::kEndOfFlood, 0, bytes, round_);
      if (const auto arrived = answer(Kind::kEndOfFlood, kPatienceSeconds))
        return {*arrived, seconds(Clock::now() - start)};
    }
    throw std::runtime_error(kNoAnswer);
  }

  /// The number in the answer; nullopt when none comes in time.
  std::optional<uint64_t> answer(Kind kind, double limit_s) {
    std::optional<uint64_t> number;
    const auto start = Clock::now();
    for (uint64_t turn = 1; !number; ++turn) {
      if (peer_ != nullptr) peer_->step();
      end_.receive([&](const Header& header, uint32_t) {
        if (header.kind == kind && header.round == (kind == Kind::kEndOfFlood ? round_ : 0))
          number = header.number;
      });
      if (turn % 1024 == 0 && seconds(Clock::now() - start) > limit_s) break;
    }
    return number;
  }

  static constexpr double kLimitSeconds = 10;
  static constexpr double kPatienceSeconds = 0.1;
  static constexpr const char* kNoAnswer = "no answer from the other end";

  End& end_;
  Responder* peer_;
  uint8_t round_ = 0;
};

void measure(Initiator& initiator, const std::vector<uint32_t>& sizes, double duration_s) {
  std::string out;
  const auto add = [&](const std::string& name, double value) {
    out += fmt::format("{}\n  \"{}\": {:.6g}", out.empty() ? "" : ",", name, value);
  };
  for (const uint32_t bytes : sizes) {
    initiator.flood(Kind::kFloodPlaced, bytes, duration_s / 4);
    for (const auto& [kind, name] : {std::pair{Kind::kFlood, "bare"}, std::pair{Kind::kFloodCopied, "copied"},
                                     std::pair{Kind::kFloodPlaced, "placed"}}) {
      const double rate = initiator.flood(kind, bytes, duration_s);
      add(fmt::format("{}.{}.frames_per_second", name, bytes), rate);
      add(fmt::format("{}.{}.gigabits_per_second", name, bytes), rate * bytes * 8 / 1e9);
    }
    const Histogram samples = initiator.ping(bytes, duration_s);
    for (const auto& [percent, name] :
         {std::pair{50.0, "p50"}, std::pair{99.0, "p99"}, std::pair{99.9, "p999"}}) {
      add(fmt::format("bare.{}.round_trip_{}_us", bytes, name),
          static_cast<double>(samples.percentile(percent)) / 1000);
    }
  }
  initiator.part(sizes.front());
  fmt::print("{{{}\n}}\n", out);
}

struct Options {
  std::string port;
  std::string peer_port;
  bool responder = false;
  bool two_threads = false;
  std::vector<uint32_t> sizes{138, 4170};
  double duration_s = 0.5;
};

void respond(End& end) {
  constexpr std::chrono::seconds kIdleLimit{60};
  Responder responder(end);
  const auto start = Clock::now();
  for (uint64_t turn = 1; responder.step(); ++turn) {
    if (turn % 4096 == 0 && Clock::now() - start > kIdleLimit)
      throw std::runtime_error("nobody said goodbye");
  }
}

/// DPDK's caches are those of a numbered thread.
void wear_lcore() {
  const auto lcore = engine::reserve_lcore();
  if (!lcore) throw std::runtime_error(lcore.error().message);
  RTE_PER_LCORE(_lcore_id) = *lcore;
}

void run_two_threads(End& end, End& peer_end, const Options& options) {
  std::exception_ptr failure;
  std::thread other([&] {
    try {
      if (drivers::needs_eal(options.peer_port)) wear_lcore();
      respond(peer_end);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  Initiator initiator(end, nullptr);
  try {
    measure(initiator, options.sizes, options.duration_s);
  } catch (...) {
    initiator.part(options.sizes.front());
    other.join();
    throw;
  }
  other.join();
  if (failure) std::rethrow_exception(failure);
}

void run(const Options& options) {
  constexpr std::chrono::seconds kLinkLimit{10};
  if (drivers::needs_eal(options.port)) {
    engine::Configuration configuration;
    std::vector<std::string> ports{options.port};
    if (!options.peer_port.empty()) ports.push_back(options.peer_port);
    if (const Status started = engine::start_eal(configuration, ports); !started) {
      throw std::runtime_error(started.error().message);
    }
    wear_lcore();
  }
  End end(options.port);
  std::unique_ptr<End> peer_end;
  std::optional<Responder> peer;
  if (!options.peer_port.empty()) {
    peer_end = std::make_unique<End>(options.peer_port);
    peer_end->wait_for_link(kLinkLimit);
    peer.emplace(*peer_end);
  }
  end.wait_for_link(kLinkLimit);
  if (options.responder) return respond(end);
  if (options.two_threads && peer_end) return run_two_threads(end, *peer_end, options);
  Initiator initiator(end, peer ? &*peer : nullptr);
  measure(initiator, options.sizes, options.duration_s);
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  uroce::perf::Options options;
  CLI::App app("What a port carries without any protocol.");
  app.add_option("--port", options.port, "this end")->required();
  auto* peer = app.add_option("--peer-port", options.peer_port, "the other end, turned by the same thread");
  app.add_flag("--responder", options.responder, "answer until the other end says goodbye")->excludes(peer);
  app.add_flag("--two-threads", options.two_threads, "the other end has a thread of its own")->needs(peer);
  app.add_option("--bytes", options.sizes, "frame sizes")->delimiter(',')->check(CLI::Range(64, 9000));
  app.add_option("--seconds", options.duration_s, "per measurement");
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::perf::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_port: {}\n", error.what());
    return 1;
  }
  return 0;
}
