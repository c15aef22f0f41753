// Neighbours of several clients: each has its share of what there is room for.
#include <gtest/gtest.h>

#include <string>

#include "base/values/random.h"
#include "net/derived_mac.h"
#include "two_hosts.h"

namespace uroce::net {
namespace {

/// How many addresses of 192.0.2.FROM to TO `client` could begin to ask for.
int begin_questions(Host& a, int from, int to, ResolutionClient client, Instant& now) {
  int begun = 0;
  for (int i = from; i < to; ++i) {
    now = now + microseconds(1);
    const Resolution resolution = a.neighbours.resolve(ip("192.0.2." + std::to_string(i)), now, client);
    EXPECT_TRUE(resolution == Resolution::kAsking || resolution == Resolution::kTableFull);
    begun += resolution == Resolution::kAsking ? 1 : 0;
  }
  return begun;
}

TEST(NeighboursLimits, AnAskerWithMany_ExpectItsOldestGiveWayToThoseWithFewer) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.capacity = 16;
  Host a(options);
  Instant now{0};
  EXPECT_EQ(begin_questions(a, 100, 108, 1, now), 8) << "half of the table is one client's";
  EXPECT_EQ(begin_questions(a, 108, 112, 1, now), 0);
  // Two others begin. Expect: each has its share, and no more than the first.
  EXPECT_EQ(begin_questions(a, 120, 124, 2, now), 4);
  EXPECT_EQ(begin_questions(a, 124, 130, 2, now), 0);
  EXPECT_EQ(begin_questions(a, 140, 150, 3, now), 3);
  // The newest of the first are left: to ask for them takes no place.
  EXPECT_EQ(begin_questions(a, 106, 108, 1, now), 2);
  // An answer frees a place, for whoever comes.
  const Gid found = ip("192.0.2.140");
  Host owner(options_of(derived_mac(found), found, kB6));
  for (const Frame& question : a.pumped(now))
    for (const Frame& answer : owner.received(question, now)) a.received(answer, now);
  ASSERT_TRUE(a.neighbours.lookup(found, now));
  EXPECT_EQ(begin_questions(a, 150, 152, 1, now), 1);
}

TEST(NeighboursLimits, AnAskerThatKnowsMany_ExpectThoseOfOthersKept) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.capacity = 8;
  Host a(options);
  Instant now{0};
  const auto know = [&](int i, ResolutionClient client) {
    const Gid address = ip("192.0.2." + std::to_string(i));
    ASSERT_EQ(a.neighbours.resolve(address, now, client), Resolution::kAsking);
    Host owner(options_of(derived_mac(address), address, kB6));
    for (const Frame& question : a.pumped(now))
      for (const Frame& answer : owner.received(question, now)) a.received(answer, now);
    ASSERT_TRUE(a.neighbours.lookup(address, now));
    now = now + milliseconds(1);
  };
  know(11, 1);
  know(12, 1);
  for (int i = 100; i < 150; ++i) know(i, 2);
  EXPECT_TRUE(a.neighbours.lookup(ip("192.0.2.11"), now));
  EXPECT_TRUE(a.neighbours.lookup(ip("192.0.2.12"), now));
}

TEST(NeighboursLimits, RandomUseByManyAskers_ExpectTheirSharesToAddUp) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.capacity = 12;
  options.known_for = milliseconds(30);
  options.ask_every = milliseconds(5);
  options.ask_times = 2;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Host a(options);
    Instant now{0};
    for (int step = 0; step < 2000; ++step) {
      const Gid address = ip("192.0.2." + std::to_string(20 + random.below(30)));
      if (random.chance(1, 200)) a.neighbours.forget();
      (void)a.neighbours.resolve(address, now, random.below(4));
      Host owner(options_of(derived_mac(address), address, kB6));
      if (random.chance(1, 10)) owner.neighbours.resolve(kA4, now);
      for (const Frame& question : owner.pumped(now)) a.received(question, now);
      for (const Frame& question : a.pumped(now))
        if (random.chance(1, 2))
          for (const Frame& answer : owner.received(question, now)) a.received(answer, now);
      now = now + milliseconds(static_cast<int64_t>(random.below(4)));
    }
    // All are forgotten, or time out. Expect: one client may have half of the table again.
    for (int i = 0; i < 10; ++i) {
      now = now + milliseconds(5);
      a.pumped(now);
    }
    a.neighbours.forget();
    EXPECT_EQ(begin_questions(a, 100, 150, 9, now), 6);
  }
}

}  // namespace
}  // namespace uroce::net
