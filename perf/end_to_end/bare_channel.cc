// What the channel between two programs of one host carries without a device, a protocol or an ICRC: each
// process on a CPU of its own, with its own sealed memory; the sender copies payload from memory into a
// frame, the receiver copies the frame's payload out. Source and destination are larger than the caches of a
// CPU. Floods are one way, a round trip is a frame there and another one back. Figures are named as those of
// bare_port. With --share-cpus a process that finds nothing to do gives its CPU away, for several of these at
// once; then there are no round trips.
//
//   bare_channel --bytes 138,4170
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "client/histogram.h"
#include "host/channel.h"
#include "host/shared_memory.h"
#include "perf/end_to_end/figures.h"
#include "perf/end_to_end/pinned.h"
#include "port/short_frame.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;
using host::SealedMemory;

constexpr host::MemoryShape kShape = host::kProgramMemory;
constexpr double kLimitSeconds = 10;

struct Options {
  std::vector<uint32_t> sizes{138, 4170};
  double duration_s = 0.5;
  uint32_t in_flight_max = host::kRingFrames;
  bool shares_cpus = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Kind : uint32_t { kFlood, kPing, kBye };

/// What a frame begins with. The rest of what the headers of a WRITE take is not touched.
struct Head {
  Kind kind{};
  uint32_t number = 0;
};
constexpr size_t kHeaderBytes = 70;  // Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16
constexpr size_t kIcrcBytes = 4;
static_assert(sizeof(Head) <= kHeaderBytes);

/// One end: its memory, and what it copies from and to.
class End {
 public:
  static constexpr uint32_t kBurst = 32;

  /// `memory` is written by this process, `far` by the other one.
  End(std::byte* memory, const std::byte* far, uint32_t in_flight_max)
      : in_flight_max_(in_flight_max),
        own_(memory, kShape),
        channel_(
            own_, 0,
            {.memory = far, .shape = kShape, .channel = 0, .bell = &host::MemoryLayout(kShape).bell(far)}),
        sources_(kSourceBytes),
        targets_(kTargetBytes) {}

  /// A frame with payload. False: the other end has not taken enough of the ones before.
  bool send(const Head& head, uint32_t bytes) {
    if (channel_.in_flight() >= in_flight_max_) channel_.reclaim();
    if (channel_.in_flight() >= in_flight_max_ || !channel_.has_room()) return false;
    const uint32_t frame = own_.take();
    std::byte* const to = own_.frame(frame);
    port::claim_frame(to);
    std::memcpy(to, &head, sizeof head);
    const size_t payload = bytes - kHeaderBytes - kIcrcBytes;
    std::memcpy(to + kHeaderBytes, sources_.data() + next_place(source_, payload, kSourceBytes), payload);
    channel_.send(frame, bytes, true);
    return true;
  }

  /// Copies what has come, a burst at most, and hands each frame to `take` as (head, bytes).
  template <typename Take>
  void receive(Take take) {
    std::array<host::Channel::Frame, kBurst> frames;
    uint32_t count = 0;
    for (; count < kBurst && channel_.pending(); ++count) {
      frames[count] = channel_.receive();
      if (frames[count].data == nullptr) throw std::runtime_error("the other end broke the channel's format");
      port::prefetch_frame(frames[count].data);
    }
    if (count == 0) return;
    std::array<Head, kBurst> heads;
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(&heads[i], frames[i].data, sizeof(Head));
      const size_t payload = frames[i].length - kHeaderBytes - kIcrcBytes;
      std::memcpy(targets_.data() + next_place(target_, payload, kTargetBytes), frames[i].data + kHeaderBytes,
                  payload);
    }
    channel_.release();
    for (uint32_t i = 0; i < count; ++i) take(heads[i], frames[i].length);
  }

  /// All that was sent has been copied by the other end.
  [[nodiscard]] bool all_taken() {
    channel_.reclaim();
    return channel_.in_flight() == 0;
  }

 private:
  static constexpr size_t kSourceBytes = 4 << 20;
  static constexpr size_t kTargetBytes = 64 << 20;

  static size_t next_place(size_t& next, size_t payload, size_t bytes) {
    const size_t place = next;
    next += (payload + 63) / 64 * 64;
    if (next + payload > bytes) next = 0;
    return place;
  }

  const uint32_t in_flight_max_;
  host::OwnMemory own_;
  host::Channel channel_;
  std::vector<std::byte> sources_;
  std::vector<std::byte> targets_;
  size_t source_ = 0;
  size_t target_ = 0;
};

/// Until the other end says goodbye.
void respond(End& end, const Options& options) {
  for (bool more = true; more;) {
    bool idle = true;
    end.receive([&](const Head& head, uint32_t bytes) {
      idle = false;
      if (head.kind == Kind::kPing)
        while (!end.send(head, bytes)) continue;
      more &= head.kind != Kind::kBye;
    });
    if (idle && options.shares_cpus) sched_yield();
  }
}

/// Frames per second that the other end has copied.
double flood(End& end, uint32_t bytes, double duration_s, const Options& options) {
  uint64_t sent = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < duration_s) {
    const uint64_t before = sent;
    for (uint32_t i = 0; i < End::kBurst; ++i) sent += end.send({.kind = Kind::kFlood}, bytes) ? 1 : 0;
    if (sent == before && options.shares_cpus) sched_yield();
  }
  for (uint32_t turn = 1; !end.all_taken(); ++turn) {
    if (turn % 1024 == 0 && seconds_since(start) > duration_s + kLimitSeconds)
      throw std::runtime_error("the other end takes no frames");
    if (options.shares_cpus) sched_yield();
  }
  return static_cast<double>(sent) / seconds_since(start);
}

client::Histogram ping(End& end, uint32_t bytes, double duration_s) {
  client::Histogram samples;
  const auto start = Clock::now();
  for (uint32_t number = 0; seconds_since(start) < duration_s; ++number) {
    const auto sent_at = Clock::now();
    if (!end.send({.kind = Kind::kPing, .number = number}, bytes))
      throw std::runtime_error("there is no room");
    bool answered = false;
    for (uint32_t turn = 1; !answered; ++turn) {
      end.receive([&](const Head& head, uint32_t) { answered = head.number == number; });
      if (turn % 65536 == 0 && seconds_since(sent_at) > kLimitSeconds)
        throw std::runtime_error("no answer from the other end");
    }
    samples.record(static_cast<uint64_t>((Clock::now() - sent_at).count()));
  }
  return samples;
}

void measure(End& end, const Options& options) {
  Figures figures;
  const double duration_s = options.duration_s;
  for (const uint32_t bytes : options.sizes) {
    const std::string name = fmt::format("copied.{}", bytes);
    flood(end, bytes, duration_s / 4, options);
    figures.add_rate(name, flood(end, bytes, duration_s, options), bytes);
    if (options.shares_cpus) continue;
    ping(end, bytes, duration_s / 16);
    figures.add_round_trips(name, ping(end, bytes, duration_s));
  }
  while (!end.send({.kind = Kind::kBye}, options.sizes.front())) continue;
  figures.print();
}

host::SealedMemory make_memory(const char* name) {
  auto memory = host::make_sealed_memory(name, host::MemoryLayout(kShape).bytes());
  if (!memory) throw std::runtime_error(memory.error().message);
  return std::move(*memory);
}

host::Mapping map_other(const host::SealedMemory& memory) {
  // Its format is written when the other process has begun.
  auto mapping = host::map_sealed_memory(memory.descriptor.get(), host::MemoryLayout(kShape).bytes());
  if (!mapping) throw std::runtime_error(mapping.error().message);
  return std::move(*mapping);
}

int in_child(host::SealedMemory& own, const host::SealedMemory& other, const Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (!options.shares_cpus) pin_to(1);
    const host::Mapping far = map_other(other);
    End end(own.mapping.data(), far.data(), host::kRingFrames);
    respond(end, options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_channel: {}\n", error.what());
    return 1;
  }
  return 0;
}

void run(const Options& options) {
  const host::SealedMemory own = make_memory("near");
  host::SealedMemory childs = make_memory("far");
  // No mapping to write can be made any more: the child has this one, and the parent gives it up.
  madvise(childs.mapping.data(), childs.mapping.bytes(), MADV_DOFORK);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) _exit(in_child(childs, own, options));
  childs.mapping = {};
  try {
    if (!options.shares_cpus) pin_to(0);
    const host::Mapping far = map_other(childs);
    End end(own.mapping.data(), far.data(), options.in_flight_max);
    measure(end, options);
  } catch (...) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    throw;
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("the other process failed");
}

}  // namespace
}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("What a channel between two programs carries without any protocol.");
  uroce::perf::Options options;
  app.add_option("--bytes", options.sizes, "frame sizes")->delimiter(',')->check(CLI::Range(128, 4352));
  app.add_option("--seconds", options.duration_s, "per measurement");
  app.add_option("--in-flight", options.in_flight_max, "frames that the receiver has not taken, at most")
      ->check(CLI::Range(1u, uroce::host::kRingFrames));
  app.add_flag("--share-cpus", options.shares_cpus, "with others: yield where there is nothing to do");
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::perf::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_channel: {}\n", error.what());
    return 1;
  }
}
