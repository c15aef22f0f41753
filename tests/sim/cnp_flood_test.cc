// A peer, and a stranger, that send CNPs without end to one of two queue pairs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/turns.h"
#include "tests/sim/virtual_clock.h"
#include "tests/sim/write_stream.h"
#include "wire/big_endian.h"
#include "wire/frame.h"
#include "wire/internet_checksum.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kBytes = 65536;
constexpr uint32_t kOutstanding = 8;
constexpr int64_t kPicosecondsPerByte = 320;
constexpr size_t kIp = 14;
constexpr size_t kBth = kIp + 20 + 8;
constexpr std::array<MacAddress, 2> kMacs = {MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}};

engine::InterfaceAddress address_of(size_t side) {
  return {Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(side + 1)}), 24};
}

struct Flood {
  uint32_t copies = 0;  // of each CNP
  QpNumber number;      // of the queue pair that they are for
  bool by_stranger = false;
};

void restore_checksum(std::vector<std::byte>& frame) {
  wire::store_be16(frame.data() + kIp + 10, 0);
  const uint16_t sum = wire::fold_sum(wire::add_words({frame.data() + kIp, 20}));
  wire::store_be16(frame.data() + kIp + 10, static_cast<uint16_t>(~__builtin_bswap16(sum)));
}

uint32_t destination_of(const std::vector<std::byte>& frame) {
  return wire::load_be32(frame.data() + kBth + 4) & 0xFFFFFF;
}

/// Marks the data of the queue pair whose peer has that number.
class Mark final : public Node {
 public:
  explicit Mark(const QpNumber& peer) : peer_(peer) {}
  void pass(FramePtr frame, Random&, const Sink& next) override {
    if (frame->bytes.size() > kBytes / 64 && destination_of(frame->bytes) == peer_.value) {
      frame->bytes[kIp + 1] |= std::byte{3};
      restore_checksum(frame->bytes);
    }
    next(std::move(frame));
  }

 private:
  const QpNumber& peer_;
};

/// Sends each CNP many times, one in 500 ns.
class Repeat final : public Node {
 public:
  explicit Repeat(const Flood& flood) : flood_(flood) {}
  void pass(FramePtr frame, Random&, const Sink& next) override {
    constexpr std::byte kCnp{0x81};
    if (frame->bytes.size() > kBth && frame->bytes[kBth] == kCnp) {
      for (uint32_t i = 1; i <= flood_.copies; ++i) {
        auto copy = std::make_unique<Frame>(*frame);
        copy->arrival = frame->arrival + nanoseconds(500 * int64_t{i});
        if (flood_.by_stranger) {
          // It does not know the ICRC, which covers its address.
          copy->bytes[kIp + 15] ^= std::byte{0x40};
          restore_checksum(copy->bytes);
        }
        next(std::move(copy));
      }
      if (flood_.by_stranger) return;
    }
    next(std::move(frame));
  }

 private:
  const Flood& flood_;
};

/// Two queue pairs of one host that WRITE to another; the data of the first is marked.
class TwoFlows {
 public:
  TwoFlows(uint32_t copies, bool by_stranger) : flood_{.copies = copies, .by_stranger = by_stranger} {
    std::array<Path, 2> paths;
    paths[0].push_back(std::make_unique<Mark>(flood_.number));
    paths[1].push_back(std::make_unique<Repeat>(flood_));
    for (size_t side = 0; side < 2; ++side) {
      paths[side].push_back(std::make_unique<Delay>(microseconds(5), 0, Duration{}));
      auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = kMacs[side],
                                                            .path = std::move(paths[side]),
                                                            .seed = side,
                                                            .ring = 4096,
                                                            .picoseconds_per_byte = kPicosecondsPerByte});
      hosts_.push_back(std::make_unique<Host>(
          std::move(end),
          Host::Options{.device = {.addresses = {address_of(side)},
                                   .neighbours = {{address_of(1 - side).address, kMacs[1 - side]}}},
                        .congestion = {.control = qp::CongestionControl::kDcqcn,
                                       .parameters = {{"line_mbps", 25'000}}}}));
      turns_.add(*hosts_.back());
    }
    WireEnd::join(std::array{&hosts_[0]->end(), &hosts_[1]->end()});
    for (size_t i = 0; i < 2; ++i)
      streams_.emplace_back(*hosts_[0], *hosts_[1],
                            WriteStream::Options{.bytes = kBytes, .outstanding = kOutstanding}, random_);
    flood_.number = streams_[0].target();
    const Instant end = VirtualClock::now() + milliseconds(20);
    while (VirtualClock::now() < end) {
      for (WriteStream& stream : streams_) stream.post();
      turns_.advance(turns_.round(), end);
      for (WriteStream& stream : streams_) stream.poll();
    }
  }

  [[nodiscard]] uint64_t done(size_t flow) const { return streams_.at(flow).done(); }
  [[nodiscard]] uint64_t counter(Counter counter) const { return hosts_[0]->device().counter(counter); }

 private:
  Flood flood_;
  Random random_{1};
  Turns turns_{1};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<WriteStream> streams_;
};

TEST(CnpFlood, OfThePeerSlowsItsOwnQueuePairDownAlone) {
  const TwoFlows calm(0, false);
  const TwoFlows flooded(90, false);
  fmt::print(
      "messages of the marked queue pair and of another: {} and {}; with {} CNPs instead of {}: {} and {}\n",
      calm.done(0), calm.done(1), flooded.counter(Counter::kRxCnp), calm.counter(Counter::kRxCnp),
      flooded.done(0), flooded.done(1));
  EXPECT_GT(flooded.counter(Counter::kRxCnp), 20 * calm.counter(Counter::kRxCnp));
  EXPECT_LT(flooded.done(0), calm.done(0));
  EXPECT_GT(flooded.done(0), 0u);
  EXPECT_GE(flooded.done(1), calm.done(1));
}

TEST(CnpFlood, OfAStrangerSlowsNoneDown) {
  const TwoFlows flooded(90, true);
  fmt::print("messages of the two queue pairs: {} and {}; {} frames dropped\n", flooded.done(0),
             flooded.done(1), flooded.counter(Counter::kDropIcrc) + flooded.counter(Counter::kDropWrongPeer));
  EXPECT_EQ(flooded.counter(Counter::kRxCnp), 0u);
  EXPECT_GT(flooded.counter(Counter::kDropIcrc) + flooded.counter(Counter::kDropWrongPeer), 1000u);
  EXPECT_GT(flooded.done(0) * 10, flooded.done(1) * 9);
  EXPECT_GT(flooded.done(1) * 10, flooded.done(0) * 9);
}

}  // namespace
}  // namespace uroce::sim
