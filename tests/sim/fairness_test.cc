// A queue pair with long messages beside many with short ones, which all want the same link.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <vector>

#include "tests/sim/linked_hosts.h"
#include "tests/sim/virtual_clock.h"
#include "tests/sim/write_stream.h"

namespace uroce::sim {
namespace {

constexpr size_t kShortOnes = 100;
constexpr uint32_t kShortBytes = 64;
constexpr uint32_t kShortFrame = kShortBytes + 74;  // of a WRITE
constexpr double kLinkGigabits = 25;
constexpr Duration kWarmUp = milliseconds(2);
constexpr Duration kLength = milliseconds(10);

struct Shares {
  double long_gigabits = 0;              // per second, of payload
  double gigabits = 0;                   // likewise of all, with the headers of the short ones
  std::vector<uint64_t> short_messages;  // of each
  [[nodiscard]] uint64_t least() const { return *std::ranges::min_element(short_messages); }
  [[nodiscard]] uint64_t most() const { return *std::ranges::max_element(short_messages); }
};

struct Mix {
  uint32_t long_bytes = 0;  // 0: no flow sends long messages
  uint32_t short_ones = kShortOnes;
  Duration round_trip = microseconds(20);
};

Shares measure(const Mix& mix) {
  LinkedHosts hosts({.round_trip = mix.round_trip});
  std::deque<WriteStream> streams;
  const auto add = [&](uint32_t bytes, uint32_t outstanding) {
    streams.emplace_back(
        hosts.host(0), hosts.host(1),
        WriteStream::Options{
            .bytes = bytes, .outstanding = outstanding, .arena_bytes = Arena::bytes_for(bytes)},
        hosts.random());
  };
  if (mix.long_bytes > 0) add(mix.long_bytes, 4);
  for (uint32_t i = 0; i < mix.short_ones; ++i) add(kShortBytes, 1);
  const auto run = [&](Duration length) {
    for (const Instant end = VirtualClock::now() + length; VirtualClock::now() < end;) {
      for (WriteStream& stream : streams) stream.post();
      hosts.step(end);
      for (WriteStream& stream : streams) stream.poll();
    }
  };
  run(kWarmUp);
  for (WriteStream& stream : streams) stream.forget();
  run(kLength);
  Shares shares;
  for (const WriteStream& stream : streams) shares.short_messages.push_back(stream.done());
  if (mix.long_bytes > 0) {
    shares.long_gigabits = 8.0 * mix.long_bytes * static_cast<double>(shares.short_messages.front()) /
                           static_cast<double>(kLength.ns);
    shares.short_messages.erase(shares.short_messages.begin());
  }
  const uint64_t all =
      std::accumulate(shares.short_messages.begin(), shares.short_messages.end(), uint64_t{0});
  shares.gigabits =
      shares.long_gigabits + 8.0 * kShortFrame * static_cast<double>(all) / static_cast<double>(kLength.ns);
  return shares;
}

/// Short messages wait for what the long ones have on the path, which is as much as it takes and little more.
void expect_fair(Duration round_trip) {
  const Shares alone = measure({.long_bytes = 1 << 20, .short_ones = 1, .round_trip = round_trip});
  const Shares quiet = measure({.round_trip = round_trip});
  const Shares both = measure({.long_bytes = 1 << 20, .round_trip = round_trip});
  fmt::print(
      "round trip {} us: long messages: {:.2f} Gbit/s beside one queue pair, {:.2f} beside {}; short ones of "
      "each: {} to {} without them, {} to {} beside them\n",
      round_trip.ns / 1000, alone.long_gigabits, both.long_gigabits, kShortOnes, quiet.least(), quiet.most(),
      both.least(), both.most());
  EXPECT_GT(alone.long_gigabits, 0.95 * kLinkGigabits);
  EXPECT_GT(both.gigabits, 0.95 * kLinkGigabits) << "the long ones have what the short ones leave";
  EXPECT_GT(both.least() * 10, both.most() * 9) << "the short ones among themselves";
  EXPECT_GT(both.least() * 3, quiet.least() * 2);
}

TEST(Fairness, AQueuePairOfLongMessagesBesideAHundredOfShortOnes) { expect_fair(microseconds(20)); }
TEST(Fairness, OnAPathOfAHundredMicroseconds) { expect_fair(microseconds(100)); }

}  // namespace
}  // namespace uroce::sim
