#include "tests/sim/goodput.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/sim/endpoint.h"
#include "tests/sim/network_conditions.h"
#include "tests/sim/turns.h"
#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kOutstanding = 64;
constexpr uint8_t kTimeout = 14;
constexpr int64_t kFrameBytes = 4170;
constexpr uint32_t kLateBy = 64;  // frames
constexpr std::array<MacAddress, 2> kMacs = {MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}};

engine::InterfaceAddress address_of(size_t side) {
  return {Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(side + 1)}), 24};
}

/// Two hosts, the queue pair at the first of them, and what it writes.
class Transfer {
 public:
  explicit Transfer(const GoodputOptions& options)
      : options_(options), random_(options.seed), turns_(options.seed) {
    const int64_t picoseconds_per_byte = 8000 / options.link_gigabits;
    const NetworkConditions conditions{
        .loss = options.loss,
        .reordering = options.reordering,
        .latency = Duration{options.round_trip.ns / 2},
        .jitter = nanoseconds(kLateBy * kFrameBytes * picoseconds_per_byte / 1000)};
    for (size_t side = 0; side < kMacs.size(); ++side) {
      auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = kMacs[side],
                                                            .path = path_of(conditions),
                                                            .seed = random_.next(),
                                                            .picoseconds_per_byte = picoseconds_per_byte});
      hosts_.push_back(std::make_unique<Host>(
          std::move(end),
          Host::Options{.device = {.addresses = {address_of(side)},
                                   .neighbours = {{address_of(1 - side).address, kMacs[1 - side]}}},
                        .congestion = options_.congestion,
                        .selective_repeat = options_.selective_repeat}));
      turns_.add(*hosts_.back());
    }
    WireEnd::join(std::array{&hosts_[0]->end(), &hosts_[1]->end()});
    for (const auto& host : hosts_)
      ends_.push_back(std::make_unique<Endpoint>(
          *host,
          Endpoint::Options{.signal_all = true,
                            .depth = kOutstanding,
                            .arena_bytes = Arena::bytes_for(options.bytes) + Arena::kBytes},
          random_));
    connect(*ends_[0], *ends_[1], {.path_mtu = PathMtu::k4096, .reads = 16, .timeout = kTimeout});
    source_ = lend(*ends_[0]);
    target_ = lend(*ends_[1]);
    std::vector<std::byte> bytes(options_.bytes);
    for (std::byte& byte : bytes) byte = std::byte(random_.next());
    Endpoint& from = *ends_[is_read() ? 1 : 0];
    Endpoint& to = *ends_[is_read() ? 0 : 1];
    from.arena.write(is_read() ? target_ : source_, bytes);
    to.arena.expect(is_read() ? source_ : target_, bytes);
  }

  Goodput run() {
    const Instant begin = VirtualClock::now();
    uint32_t posted = 0;
    for (uint32_t done = 0; done < options_.messages;) {
      const uint32_t before = posted;
      for (; posted < options_.messages && posted - done < kOutstanding; ++posted) post(posted);
      if (posted != before) ends_[0]->publish_sends();
      turns_.advance(turns_.round(), kNever);
      done += poll();
    }
    const std::string wrong = is_read() ? ends_[0]->arena.check(source_) : ends_[1]->arena.check(target_);
    if (!wrong.empty()) throw std::runtime_error(wrong);
    const auto ns = static_cast<double>((VirtualClock::now() - begin).ns);
    return {.gigabits_per_second = 8.0 * options_.bytes * options_.messages / ns,
            .packets = options_.messages * uint64_t{options_.bytes / path_mtu_bytes(PathMtu::k4096)},
            .sent_again = hosts_[0]->device().counter(Counter::kRetransmittedPackets),
            .ack_timeouts = hosts_[0]->device().counter(Counter::kAckTimeout)};
  }

 private:
  [[nodiscard]] bool is_read() const { return options_.operation == queue::SendOperation::kRead; }
  Arena::Slot lend(Endpoint& end) { return end.arena.lend(options_.bytes, random_).value(); }

  void post(uint64_t id) {
    queue::SendQueue& queue = ends_[0]->sends();
    queue::SendRequest& request = *queue.reserve();
    request.wr_id = id;
    request.operation = options_.operation;
    request.remote_address = ends_[1]->arena.iova(target_);
    request.rkey = ends_[1]->arena.keys().rkey;
    request.length = options_.bytes;
    request.segments = 1;
    queue.segments(request)[0] = ends_[0]->arena.segment(source_);
    queue.publish();
  }

  uint32_t poll() {
    std::array<queue::Completion, kOutstanding> found;
    const size_t count = ends_[0]->poll_sends(found);
    for (size_t i = 0; i < count; ++i)
      if (found[i].status != queue::CompletionStatus::kSuccess)
        throw std::runtime_error("the connection has broken");
    return static_cast<uint32_t>(count);
  }

  const GoodputOptions options_;
  Random random_;
  Turns turns_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Endpoint>> ends_;
  Arena::Slot source_;
  Arena::Slot target_;
};

}  // namespace

Goodput measure_goodput(const GoodputOptions& options) { return Transfer(options).run(); }

}  // namespace uroce::sim
