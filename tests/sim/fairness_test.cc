// A queue pair with long messages beside many with short ones, which all want the same link.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "tests/sim/linked_hosts.h"
#include "tests/sim/virtual_clock.h"
#include "tests/sim/write_stream.h"

namespace uroce::sim {
namespace {

constexpr size_t kShortOnes = 100;
constexpr Duration kWarmUp = milliseconds(2);
constexpr Duration kLength = milliseconds(10);

struct Shares {
  double long_gigabits = 0;              // per second, of payload
  std::vector<uint64_t> short_messages;  // of each
  [[nodiscard]] uint64_t least() const { return *std::ranges::min_element(short_messages); }
  [[nodiscard]] uint64_t most() const { return *std::ranges::max_element(short_messages); }
};

struct Mix {
  uint32_t long_bytes = 0;  // 0: no flow sends long messages
  uint32_t short_ones = kShortOnes;
  uint32_t short_outstanding = 1;
};

Shares measure(const Mix& mix) {
  LinkedHosts hosts({.round_trip = microseconds(20)});
  std::deque<WriteStream> streams;
  const auto add = [&](uint32_t bytes, uint32_t outstanding) {
    streams.emplace_back(
        hosts.host(0), hosts.host(1),
        WriteStream::Options{
            .bytes = bytes, .outstanding = outstanding, .arena_bytes = Arena::bytes_for(bytes)},
        hosts.random());
  };
  if (mix.long_bytes > 0) add(mix.long_bytes, 4);
  for (uint32_t i = 0; i < mix.short_ones; ++i) add(64, mix.short_outstanding);
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
  return shares;
}

TEST(Fairness, AQueuePairOfLongMessagesBesideAHundredOfShortOnes) {
  const Shares alone = measure({.long_bytes = 1 << 20, .short_ones = 1});
  const Shares quiet = measure({});
  const Shares both = measure({.long_bytes = 1 << 20});
  fmt::print(
      "long messages: {:.2f} Gbit/s beside one queue pair, {:.2f} beside {}; short ones of each: {} to {} "
      "without "
      "them, {} to {} beside them\n",
      alone.long_gigabits, both.long_gigabits, kShortOnes, quiet.least(), quiet.most(), both.least(),
      both.most());
  EXPECT_GT(both.long_gigabits, 0.9 * alone.long_gigabits);
  EXPECT_GT(both.least() * 10, both.most() * 9) << "the short ones among themselves";
  EXPECT_GT(both.least(), quiet.least() / 10)
      << "a message waits for what the long ones have on the wire, and no longer";
}

}  // namespace
}  // namespace uroce::sim
