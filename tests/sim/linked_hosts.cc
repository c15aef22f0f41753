#include "tests/sim/linked_hosts.h"

#include <utility>
#include <vector>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr int64_t kPicosecondsPerByte = 320;
constexpr Duration kStoppedTurn = microseconds(1);
constexpr std::array<MacAddress, 2> kMacs = {MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}};

engine::InterfaceAddress address_of(size_t side) {
  return {Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(side + 1)}), 24};
}

}  // namespace

void LoseOne::pass(FramePtr frame, Random& /*random*/, const Sink& next) {
  if (left_ > 0 && --left_ == 0) return;
  next(std::move(frame));
}

LinkedHosts::LinkedHosts(const Options& options) : random_(options.seed), turns_(options.seed) {
  for (size_t side = 0; side < hosts_.size(); ++side) {
    auto loss = std::make_unique<LoseOne>();
    losses_[side] = loss.get();
    Path path;
    path.push_back(std::move(loss));
    path.push_back(std::make_unique<Delay>(Duration{options.round_trip.ns / 2}, 0, Duration{}));
    auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = kMacs[side],
                                                          .path = std::move(path),
                                                          .seed = random_.next(),
                                                          .picoseconds_per_byte = kPicosecondsPerByte});
    hosts_[side] = std::make_unique<Host>(
        std::move(end),
        Host::Options{.device = {.addresses = {address_of(side)},
                                 .neighbours = {{address_of(1 - side).address, kMacs[1 - side]}}}});
    turns_.add(*hosts_[side]);
  }
  WireEnd::join(std::array{&hosts_[0]->end(), &hosts_[1]->end()});
}

void LinkedHosts::stop_second(Duration duration) {
  const Instant end = VirtualClock::now() + duration;
  while (VirtualClock::now() < end) {
    host(0).turn(0);
    VirtualClock::set(VirtualClock::now() + kStoppedTurn);
  }
}

}  // namespace uroce::sim
