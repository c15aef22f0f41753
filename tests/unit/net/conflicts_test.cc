// Other hosts that have our addresses, too: they are asked for, announced, and defended.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/neighbour_discovery.h"
#include "two_hosts.h"

namespace uroce::net {
namespace {

/// Another host has our addresses, too, and announces them.
struct Contested : TwoHosts {
  Host impostor{options_of(mac("02:00:00:00:00:0c"), kA4, kA6)};

  /// What we answer to a question of the impostor, which has our address as its source.
  std::vector<Frame> answers() {
    std::vector<Frame> all;
    EXPECT_EQ(impostor.neighbours.resolve(kB4, now_), Resolution::kAsking);
    for (const Frame& claim : impostor.pumped(now_))
      for (Frame& frame : a_.received(claim, now_)) all.push_back(std::move(frame));
    now_ = now_ + milliseconds(500);
    return all;
  }
};

TEST_F(Contested, AnAddressIsDefendedButNotAtOnceAgain) {
  const std::vector<Frame> defence = answers();
  ASSERT_EQ(defence.size(), 1u);
  const auto announcement = parse_arp(defence[0]);
  ASSERT_TRUE(announcement);
  EXPECT_EQ(announcement->sender, kA4);
  EXPECT_EQ(announcement->target, kA4);
  EXPECT_EQ(announcement->sender_mac, kMacA);
  auto conflict = a_.neighbours.take_conflict();
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->address, kA4);
  EXPECT_EQ(conflict->with, mac("02:00:00:00:00:0c"));
  EXPECT_TRUE(conflict->first);
  EXPECT_FALSE(a_.neighbours.take_conflict());

  EXPECT_TRUE(answers().empty());
  conflict = a_.neighbours.take_conflict();
  ASSERT_TRUE(conflict);
  EXPECT_FALSE(conflict->first);
}

TEST_F(Contested, AnAdvertisementOfOursIsAnsweredByAnotherEveryTenSeconds) {
  Frame claim(kDiscoveryFrameBytes);
  const auto say = [&](MacAddress by) {
    write_discovery(claim, {.advertisement = true,
                            .source_mac = by,
                            .destination_mac = multicast_mac(all_nodes()),
                            .source = kA6,
                            .destination = all_nodes(),
                            .target = kA6,
                            .link_address = by,
                            .override = true});
    return a_.received(claim, now_);
  };
  EXPECT_TRUE(say(kMacA).empty());
  EXPECT_FALSE(a_.neighbours.take_conflict()) << "that is ourselves";
  const std::vector<Frame> defence = say(kMacB);
  ASSERT_EQ(defence.size(), 1u);
  const auto advertisement = parse_discovery(defence[0]);
  ASSERT_TRUE(advertisement);
  EXPECT_EQ(advertisement->target, kA6);
  EXPECT_EQ(advertisement->link_address, kMacA);
  EXPECT_TRUE(advertisement->override);
  EXPECT_TRUE(a_.neighbours.take_conflict());
  now_ = now_ + seconds(9);
  EXPECT_TRUE(say(kMacB).empty());
  now_ = now_ + seconds(1);
  EXPECT_EQ(say(kMacB).size(), 1u);
}

TEST(OwnAddressesAtTheStart, AreAskedForThenAnnounced) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.probe = true;
  Host a(options);
  Host owner(options_of(kMacB, kA4, kA6));
  const Instant start{1'000'000};
  Instant now = start;
  std::vector<std::pair<int64_t, std::string>> seen;
  size_t conflicts = 0;
  while (a.neighbours.deadline() != kNever) {
    now = std::max(now, a.neighbours.deadline());
    for (const Frame& frame : a.pumped(now)) {
      const auto arp = parse_arp(frame);
      const auto discovery = parse_discovery(frame);
      ASSERT_TRUE(arp || discovery);
      const bool probe = arp ? arp->sender == Gid::from_ipv4({}) : !discovery->advertisement;
      seen.emplace_back((now - start).ns / 1'000'000'000, std::string(arp ? "4" : "6") + (probe ? "?" : "!"));
      if (!probe) continue;
      for (const Frame& answer : owner.received(frame, now)) a.received(answer, now);
      conflicts += a.neighbours.take_conflict() ? 1 : 0;
    }
  }
  const std::vector<std::pair<int64_t, std::string>> expected = {{0, "4?"}, {0, "6?"}, {1, "4?"}, {1, "6!"},
                                                                 {2, "4?"}, {4, "4!"}, {6, "4!"}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(conflicts, 4u) << "the owner answers each";
}

}  // namespace
}  // namespace uroce::net
