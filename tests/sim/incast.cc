#include "tests/sim/incast.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/switch_queue.h"
#include "tests/sim/turns.h"
#include "tests/sim/virtual_clock.h"
#include "tests/sim/write_stream.h"

namespace uroce::sim {

namespace {

constexpr size_t kSenders = 8;
constexpr uint32_t kBytes = 65536;
constexpr uint32_t kOutstanding = 4;
constexpr uint8_t kTimeout = 10;  // 4 ms
constexpr int64_t kPicosecondsPerByte = 320;
constexpr Duration kOneWay = microseconds(5);

MacAddress mac_of(size_t host) { return {{2, 0, 0, 0, 0, static_cast<uint8_t>(host + 1)}}; }
engine::InterfaceAddress address_of(size_t host) {
  return {Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(host + 1)}), 24};
}

/// The hosts that send, and behind them the one that they send to.
class Senders {
 public:
  explicit Senders(const IncastOptions& options)
      : options_(options), random_(options.seed), turns_(options.seed), queue_({}) {
    std::vector<WireEnd*> ends;
    for (size_t host = 0; host <= kSenders; ++host) {
      hosts_.push_back(make_host(host));
      turns_.add(*hosts_.back());
      ends.push_back(&hosts_.back()->end());
    }
    WireEnd::join(ends);
    for (size_t i = 0; i < kSenders; ++i)
      streams_.emplace_back(*hosts_[reads() ? kSenders : i], *hosts_[reads() ? i : kSenders],
                            WriteStream::Options{.bytes = kBytes,
                                                 .outstanding = kOutstanding,
                                                 .timeout = kTimeout,
                                                 .operation = options_.operation},
                            random_);
  }

  Incast run() {
    const Instant begin = VirtualClock::now();
    for (size_t i = 0; i < kSenders; ++i) begins_[i] = begin + options_.apart * static_cast<int64_t>(i);
    run_until(begin + options_.warm_up);
    const uint64_t lost_before = queue_.lost();
    const uint64_t sent_again_before = sent_again();
    queue_.begin_to_count();
    for (WriteStream& stream : streams_) stream.forget();
    run_until(VirtualClock::now() + options_.length);
    Incast incast = shares();
    incast.queue_p99_kb = static_cast<double>(queue_.bytes_p99()) / 1000;
    incast.marked = queue_.marked();
    incast.lost = queue_.lost();
    incast.lost_before = lost_before;
    incast.sent_again_before = sent_again_before;
    incast.sent_again = sent_again() - sent_again_before;
    incast.cnps = hosts_[kSenders]->device().counter(Counter::kTxCnp);
    return incast;
  }

 private:
  [[nodiscard]] bool reads() const { return options_.operation == queue::SendOperation::kRead; }
  [[nodiscard]] uint64_t sent_again() const {
    uint64_t packets = 0;
    for (const auto& host : hosts_) packets += host->device().counter(Counter::kRetransmittedPackets);
    return packets;
  }

  std::unique_ptr<Host> make_host(size_t host) {
    Path path;
    path.push_back(std::make_unique<Delay>(kOneWay, 0, Duration{}));
    if (host < kSenders) path.push_back(std::make_unique<ThroughSwitch>(queue_));
    // With more than a few packets on it, a sender's wire would have them pass the switch before those of
    // others that come earlier.
    auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = mac_of(host),
                                                          .path = std::move(path),
                                                          .seed = random_.next(),
                                                          .ring = 4096,
                                                          .picoseconds_per_byte = kPicosecondsPerByte,
                                                          .backlog_max = microseconds(1)});
    engine::DeviceConfiguration device{.addresses = {address_of(host)}};
    for (size_t other = 0; other <= kSenders; ++other)
      if (other != host) device.neighbours.push_back({address_of(other).address, mac_of(other)});
    return std::make_unique<Host>(std::move(end),
                                  Host::Options{.device = device, .congestion = options_.congestion});
  }

  void run_until(Instant end) {
    while (VirtualClock::now() < end) {
      for (size_t i = 0; i < kSenders; ++i)
        if (VirtualClock::now() >= begins_[i]) streams_[i].post();
      turns_.advance(turns_.round(), end);
      for (WriteStream& stream : streams_) stream.poll();
    }
  }

  [[nodiscard]] Incast shares() const {
    double sum = 0;
    double squares = 0;
    for (const WriteStream& stream : streams_) {
      const auto done = static_cast<double>(stream.done());
      sum += done;
      squares += done * done;
    }
    const double carried = sum * kBytes * kPicosecondsPerByte / 1000;
    return {.share = carried / static_cast<double>(options_.length.ns),
            .jain = squares > 0 ? sum * sum / (kSenders * squares) : 0};
  }

  const IncastOptions options_;
  Random random_;
  Turns turns_;
  SwitchQueue queue_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<WriteStream> streams_;
  std::array<Instant, kSenders> begins_{};
};

}  // namespace

Incast measure_incast(const IncastOptions& options) { return Senders(options).run(); }

std::string text_of(const Incast& incast) {
  return fmt::format(
      "{:.3f} of the link, Jain {:.3f}, queue p99 {:.0f} kB, {} marked, {} lost, {} sent again ({} and {} in "
      "the warm-up), {} CNPs",
      incast.share, incast.jain, incast.queue_p99_kb, incast.marked, incast.lost, incast.sent_again,
      incast.lost_before, incast.sent_again_before, incast.cnps);
}

}  // namespace uroce::sim
