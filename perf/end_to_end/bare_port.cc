// What a port carries without any protocol: frames of a given size as fast as they go, and one frame there
// and back. The floor beside which uroce over the same port is measured. `copied` frames are filled from
// memory and emptied into memory; `placed` ones have a CRC as well, which the other end verifies before it
// places what is in the frame, in the order that a watching CPU may rely on, into a region of 512 MiB. Of the
// round trips an `acknowledged` one has frames of that sort, and a second short one behind each. With
// --peer-port one thread turns both ends, as `uroce perf` does in one process, or with --two-threads a second
// one turns the other end; with --responder the other end is another process.
//
//   bare_port --port net_ring0 --peer-port net_ring1 --bytes 138,4170
//   bare_port --port net_memif0,role=server,... --responder
//   bare_port --port net_memif0,role=client,... --bytes 138,4170
//
// With --interface instead of --port it is uroce's own port by AF_XDP beside the kernel.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "client/histogram.h"
#include "drivers/registry.h"
#include "engine/configuration/configuration.h"
#include "engine/platform/eal.h"
#include "perf/end_to_end/bare_end.h"
#include "perf/end_to_end/figures.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Of a flood, and behind how many of its frames one comes.
constexpr uint64_t kReportedFrames = 32;
constexpr uint32_t kReportBytes = 128;

/// Counts floods and answers.
class Responder {
 public:
  explicit Responder(BareEnd& end) : end_(end) {}

  /// False when the other end said goodbye.
  bool step() {
    bool more = true;
    end_.receive([&](const BareHeader& header, uint32_t bytes) {
      switch (header.kind) {
        case Kind::kFlood:
          ++flooded_;
          break;
        case Kind::kReportedFlood:
          ++flooded_;
          if (header.number % kReportedFrames == 0)
            end_.send_one({.kind = Kind::kReport, .number = header.number}, kReportBytes);
          break;
        case Kind::kEndOfFlood:
          if (header.round != round_) answer_ = std::exchange(flooded_, 0);
          round_ = header.round;
          end_.send_one({.kind = Kind::kEndOfFlood, .round = round_, .number = answer_}, bytes);
          break;
        case Kind::kPing:
          end_.send_one(header, bytes);
          break;
        case Kind::kAcknowledgement:
        case Kind::kReport:
          break;
        case Kind::kBye:
          more = false;
      }
    });
    return more;
  }

 private:
  BareEnd& end_;
  uint64_t flooded_ = 0;
  uint64_t answer_ = 0;  // to the last end of a flood
  uint8_t round_ = 0;
};

class Initiator {
 public:
  /// `peer` is the other end when it is turned by this thread.
  Initiator(BareEnd& end, Responder* peer) : end_(end), peer_(peer) {}

  /// The ends learn where the other one is.
  void greet(uint32_t bytes) {
    for (double waited = 0; waited < kLimitSeconds; waited += kPatienceSeconds) {
      end_.send_one({.kind = Kind::kPing}, bytes);
      if (answer(Kind::kPing, kPatienceSeconds)) return;
    }
    throw std::runtime_error(kNoAnswer);
  }

  struct Flooded {
    double rate = 0;  // frames per second that arrived
    double lost = 0;  // of those sent, from 0 to 1
  };

  /// Sends frames as fast as it goes. Where that overruns the other end, once more as fast as that takes
  /// them, because what is lost costs the sender time; what arrived in the better of the two counts.
  Flooded flood(Treatment treatment, uint32_t bytes, double duration_s) {
    constexpr double kLostMax = 0.01;
    const Flooded freely = flood(Kind::kFlood, treatment, bytes, duration_s);
    if (freely.lost <= kLostMax) return freely;
    const Flooded reported = flood(Kind::kReportedFlood, treatment, bytes, duration_s);
    return std::max(freely, reported, [](const auto& a, const auto& b) { return a.rate < b.rate; });
  }

  client::Histogram ping(Treatment treatment, bool acknowledged, uint32_t bytes, double duration_s) {
    client::Histogram samples;
    const auto start = Clock::now();
    for (uint64_t sent = 0; seconds(Clock::now() - start) < duration_s; ++sent) {
      const uint64_t number = sent % kPlaces;
      const auto sent_at = Clock::now();
      end_.send_one(
          {.kind = Kind::kPing, .treatment = treatment, .acknowledged = acknowledged, .number = number},
          bytes);
      if (answer(Kind::kPing, kLimitSeconds) != number) throw std::runtime_error(kNoAnswer);
      samples.record(static_cast<uint64_t>((Clock::now() - sent_at).count()));
    }
    return samples;
  }

  void part(uint32_t bytes) { end_.send_one({.kind = Kind::kBye}, bytes); }

 private:
  Flooded flood(Kind kind, Treatment treatment, uint32_t bytes, double duration_s) {
    uint64_t sent = 0;
    reported_ = 0;
    const auto start = Clock::now();
    for (uint64_t turn = 0; turn % 16 != 0 || seconds(Clock::now() - start) < duration_s; ++turn) {
      if (kind == Kind::kReportedFlood) wait_for_reports(sent);
      sent += end_.send({.kind = kind, .treatment = treatment, .number = sent}, bytes, BareEnd::kBurst);
      if (peer_ != nullptr) peer_->step();
    }
    const double flooded_for = seconds(Clock::now() - start);
    const auto [arrived, answered_in] = end_flood(bytes);
    const double elapsed = flooded_for + answered_in;
    const double lost = sent == 0 ? 0 : 1 - static_cast<double>(arrived) / static_cast<double>(sent);
    return {.rate = static_cast<double>(arrived) / elapsed, .lost = lost};
  }

  /// Until the other end has all of `sent` frames but for a window that every ring has room for. What was
  /// lost is not waited for for ever.
  void wait_for_reports(uint64_t sent) {
    constexpr uint64_t kWindow = 4 * kReportedFrames;
    const auto start = Clock::now();
    while (sent > reported_ + kWindow) {
      if (peer_ != nullptr) peer_->step();
      end_.receive([&](const BareHeader& header, uint32_t) {
        if (header.kind == Kind::kReport) reported_ = std::max(reported_, header.number);
      });
      if (seconds(Clock::now() - start) > kPatienceSeconds) reported_ = sent;
    }
  }

  /// How many frames arrived, and seconds from the question that was answered to the answer.
  std::pair<uint64_t, double> end_flood(uint32_t bytes) {
    ++round_;
    for (double waited = 0; waited < kLimitSeconds; waited += kPatienceSeconds) {
      const auto start = Clock::now();
      end_.send_one({.kind = Kind::kEndOfFlood, .round = round_}, bytes);
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
      end_.receive([&](const BareHeader& header, uint32_t) {
        if (header.kind == kind && header.round == (kind == Kind::kEndOfFlood ? round_ : 0))
          number = header.number;
      });
      if (turn % 1024 == 0 && seconds(Clock::now() - start) > limit_s) break;
    }
    return number;
  }

  // Of the payload of round trips: a thread that waits for one has its memory in the cache.
  static constexpr uint64_t kPlaces = 16;
  static constexpr double kLimitSeconds = 10;
  static constexpr double kPatienceSeconds = 0.1;
  static constexpr const char* kNoAnswer = "no answer from the other end";

  BareEnd& end_;
  Responder* peer_;
  uint64_t reported_ = 0;  // frames of a flood that have come there, or were lost before
  uint8_t round_ = 0;
};

void measure(Initiator& initiator, const std::vector<uint32_t>& sizes, double duration_s) {
  Figures figures;
  initiator.greet(sizes.front());
  for (const uint32_t bytes : sizes) {
    initiator.flood(Treatment::kPlaced, bytes, duration_s / 4);
    for (const auto& [treatment, name] :
         {std::pair{Treatment::kBare, "bare"}, std::pair{Treatment::kCopied, "copied"},
          std::pair{Treatment::kPlaced, "placed"}}) {
      const auto flooded = initiator.flood(treatment, bytes, duration_s);
      figures.add_rate(fmt::format("{}.{}", name, bytes), flooded.rate, bytes);
      figures.add(fmt::format("{}.{}.lost_percent", name, bytes), 100 * flooded.lost);
    }
    // Both ends have memory to place into when the first one comes back.
    initiator.ping(Treatment::kPlaced, false, bytes, duration_s / 16);
    for (const auto& [treatment, acknowledged, name] :
         {std::tuple{Treatment::kBare, false, "bare"}, std::tuple{Treatment::kPlaced, false, "placed"},
          std::tuple{Treatment::kPlaced, true, "acknowledged"}}) {
      figures.add_round_trips(fmt::format("{}.{}", name, bytes),
                              initiator.ping(treatment, acknowledged, bytes, duration_s));
    }
  }
  initiator.part(sizes.front());
  figures.print();
}

struct Options {
  std::string port;
  std::string interface;
  std::string peer_port;
  bool responder = false;
  bool two_threads = false;
  std::vector<uint32_t> sizes{138, 4170};
  double duration_s = 0.5;
};

void respond(BareEnd& end) {
  constexpr std::chrono::seconds kIdleLimit{60};
  Responder responder(end);
  const auto start = Clock::now();
  for (uint64_t turn = 1; responder.step(); ++turn) {
    if (turn % 4096 == 0 && Clock::now() - start > kIdleLimit)
      throw std::runtime_error("the other end did not say goodbye");
  }
}

/// DPDK's caches are those of a numbered thread.
void wear_lcore() {
  const auto lcore = engine::reserve_lcore();
  if (!lcore) throw std::runtime_error(lcore.error().message);
  RTE_PER_LCORE(_lcore_id) = *lcore;
}

void run_two_threads(BareEnd& end, BareEnd& peer_end, const Options& options) {
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
  if (!options.port.empty() && drivers::needs_eal(options.port)) {
    engine::Configuration configuration;
    std::vector<std::string> ports{options.port};
    if (!options.peer_port.empty()) ports.push_back(options.peer_port);
    if (const Status started = engine::start_eal(configuration, ports); !started) {
      throw std::runtime_error(started.error().message);
    }
    wear_lcore();
  }
  BareEnd end({.devargs = options.port,
               .kernels_interface = options.interface,
               .kernel_path = port::KernelPath::kXdp});
  std::unique_ptr<BareEnd> peer_end;
  std::optional<Responder> peer;
  if (!options.peer_port.empty()) {
    peer_end = std::make_unique<BareEnd>(port::Specification{.devargs = options.peer_port});
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
  auto* port = app.add_option("--port", options.port, "this end");
  auto* interface = app.add_option("--interface", options.interface, "this end, by AF_XDP beside the kernel");
  port->excludes(interface);
  auto* peer = app.add_option("--peer-port", options.peer_port, "the other end, turned by the same thread");
  app.add_flag("--responder", options.responder, "answer until the other end says goodbye")->excludes(peer);
  app.add_flag("--two-threads", options.two_threads, "the other end has a thread of its own")->needs(peer);
  app.add_option("--bytes", options.sizes, "frame sizes")->delimiter(',')->check(CLI::Range(128, 9000));
  app.add_option("--seconds", options.duration_s, "per measurement");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.port.empty() == options.interface.empty())
      throw std::runtime_error("either --port or --interface is needed");
    uroce::perf::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_port: {}\n", error.what());
    return 1;
  }
  return 0;
}
