#include "net/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "net/derived_mac.h"
#include "two_hosts.h"

namespace uroce::net {
namespace {

TEST_F(TwoHosts, NothingIsDueAtFirst) {
  EXPECT_EQ(a_.neighbours.deadline(), kNever);
  EXPECT_TRUE(a_.pumped(now_).empty());
}

TEST_F(TwoHosts, FindEachOtherByArp) {
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), std::nullopt);
  EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
  EXPECT_EQ(a_.neighbours.deadline(), now_);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), kMacB);
  EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kKnown);
  EXPECT_EQ(b_.neighbours.lookup(kA4, now_), kMacA) << "a host that asks is learned";
}

TEST_F(TwoHosts, FindEachOtherByNeighbourDiscovery) {
  EXPECT_EQ(a_.neighbours.resolve(kB6, now_), Resolution::kAsking);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kB6, now_), kMacB);
  EXPECT_EQ(b_.neighbours.lookup(kA6, now_), kMacA);
}

TEST_F(TwoHosts, LinkLocalIsAlwaysOnTheLink) {
  EXPECT_EQ(a_.neighbours.resolve(kLinkLocalB, now_), Resolution::kAsking);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kLinkLocalB, now_), kMacB);
}

TEST_F(TwoHosts, ArpRequestOnTheWire) {
  ASSERT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
  const std::vector<Frame> frames = a_.pumped(now_);
  ASSERT_EQ(frames.size(), 1u);
  const std::vector<uint8_t> expected = {
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0,  0, 0x0a, 0x08, 0x06,  // Ethernet, broadcast
      0,    1,    8,    0,    6,    4,    0,    1,                              // Ethernet, IPv4, request
      0x02, 0,    0,    0,    0,    0x0a, 192,  0, 2, 10,                       // sender
      0,    0,    0,    0,    0,    0,    192,  0, 2, 11};                      // target
  ASSERT_EQ(frames[0].size(), 60u);
  EXPECT_EQ(std::memcmp(frames[0].data(), expected.data(), expected.size()), 0);
}

TEST_F(TwoHosts, SolicitationOnTheWire) {
  ASSERT_EQ(a_.neighbours.resolve(kB6, now_), Resolution::kAsking);
  const std::vector<Frame> frames = a_.pumped(now_);
  ASSERT_EQ(frames.size(), 1u);
  // The checksum was computed separately, from RFC 8200's pseudo-header.
  const std::vector<uint8_t> expected = {
      0x33, 0x33, 0xff, 0, 0, 0x11, 0x02, 0, 0, 0, 0, 0x0a, 0x86, 0xdd,  // Ethernet
      0x60, 0, 0, 0, 0, 32, 58, 255,                                     // IPv6
      0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,     // source
      0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0x11,        // solicited
                                                                         // node
      135, 0, 0x1b, 0xf1, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      0x11,                           // target
      1, 1, 0x02, 0, 0, 0, 0, 0x0a};  // source link address
  ASSERT_EQ(frames[0].size(), expected.size());
  EXPECT_EQ(std::memcmp(frames[0].data(), expected.data(), expected.size()), 0);
}

TEST_F(TwoHosts, AsksAgainAndGivesUpInTime) {
  ASSERT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
  size_t asked = 0;
  while (a_.neighbours.deadline() != kNever) {
    ASSERT_LT(asked, 100u);
    now_ = a_.neighbours.deadline();
    EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
    asked += a_.pumped(now_).size();
  }
  EXPECT_EQ(asked, 6u);
  EXPECT_EQ(now_ - Instant{1'000'000}, milliseconds(3000));
  // Told once, then asking starts anew and may succeed.
  EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kNoAnswer);
  EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), kMacB);
}

TEST_F(TwoHosts, AQuestionLostIsRepeated) {
  ASSERT_EQ(a_.neighbours.resolve(kB6, now_), Resolution::kAsking);
  EXPECT_EQ(a_.pumped(now_).size(), 1u);
  EXPECT_TRUE(a_.pumped(now_).empty()) << "not before its time";
  now_ = a_.neighbours.deadline();
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kB6, now_), kMacB);
  now_ = now_ + seconds(1);
  EXPECT_TRUE(a_.pumped(now_).empty());
}

TEST_F(TwoHosts, WhatIsKnownAges) {
  a_.neighbours.resolve(kB4, now_);
  exchange();
  now_ = now_ + seconds(299);
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), kMacB);
  now_ = now_ + seconds(1);
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), std::nullopt);
  EXPECT_EQ(a_.neighbours.resolve(kB4, now_), Resolution::kAsking);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), kMacB);
}

TEST_F(TwoHosts, HearingFromANeighbourKeepsItKnown) {
  a_.neighbours.resolve(kB4, now_);
  exchange();
  now_ = now_ + seconds(200);
  b_.neighbours.resolve(kA4, now_ + seconds(200));
  for (const Frame& question : b_.pumped(now_ + seconds(200))) a_.received(question, now_);
  now_ = now_ + seconds(200);
  EXPECT_EQ(a_.neighbours.lookup(kB4, now_), kMacB);
}

TEST_F(TwoHosts, OffTheLinkIsAnError) {
  EXPECT_EQ(a_.neighbours.resolve(ip("198.51.100.1"), now_), Resolution::kOffLink);
  EXPECT_EQ(a_.neighbours.resolve(ip("2001:db8:1::1"), now_), Resolution::kOffLink);
  EXPECT_EQ(a_.neighbours.resolve(Gid{}, now_), Resolution::kOffLink);
  EXPECT_EQ(a_.neighbours.deadline(), kNever);
}

TEST_F(TwoHosts, OwnAddressesAndGroupsAreKnown) {
  EXPECT_EQ(a_.neighbours.lookup(kA4, now_), kMacA);
  EXPECT_EQ(a_.neighbours.lookup(ip("fe80::ff:fe00:a"), now_), kMacA);
  EXPECT_EQ(a_.neighbours.lookup(ip("ff02::1"), now_), mac("33:33:00:00:00:01"));
}

TEST(FixedNeighbours, NeedNoQuestionAndDoNotChange) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.fixed = {{ip("198.51.100.1"), kMacB}, {kB4, kMacB}};
  Host a(options);
  const Instant late{INT64_MAX - 1};
  EXPECT_EQ(a.neighbours.resolve(ip("198.51.100.1"), late), Resolution::kKnown) << "even off the link";
  EXPECT_EQ(a.neighbours.lookup(kB4, late), kMacB);

  // An impostor asks in B's name.
  Host impostor(options_of(mac("02:00:00:00:00:0c"), kB4, kB6));
  impostor.neighbours.resolve(kA4, Instant{0});
  for (const Frame& question : impostor.pumped(Instant{0})) a.received(question, Instant{0});
  EXPECT_EQ(a.neighbours.lookup(kB4, Instant{0}), kMacB);
}

TEST_F(TwoHosts, AnswersForAnAddressFromWhenItComesUntilItGoes) {
  const Gid late = ip("198.51.100.11");
  a_.neighbours.add_address({ip("198.51.100.10"), 24});
  const auto answers = [&] {
    EXPECT_EQ(a_.neighbours.resolve(late, now_), Resolution::kAsking);
    size_t count = 0;
    for (const Frame& question : a_.pumped(now_)) count += b_.received(question, now_).size();
    return count;
  };
  EXPECT_EQ(answers(), 0u);
  b_.neighbours.add_address({late, 24});
  now_ = a_.neighbours.deadline();
  EXPECT_EQ(answers(), 1u);
  b_.neighbours.remove_address(late);
  now_ = a_.neighbours.deadline();
  EXPECT_EQ(answers(), 0u);

  // Without an address of that network there is none to ask from.
  a_.neighbours.remove_address(ip("198.51.100.10"));
  now_ = a_.neighbours.deadline();
  EXPECT_TRUE(a_.pumped(now_).empty());
  EXPECT_EQ(a_.neighbours.resolve(late, now_), Resolution::kOffLink);
}

TEST_F(TwoHosts, AnswersOnlyForItself) {
  a_.neighbours.resolve(ip("192.0.2.99"), now_);
  a_.neighbours.resolve(ip("2001:db8::99"), now_);
  for (const Frame& question : a_.pumped(now_)) {
    EXPECT_TRUE(b_.received(question, now_).empty());
    EXPECT_FALSE(b_.accepted);
  }
}

TEST_F(TwoHosts, AnswersWithoutAQuestionAreNotLearned) {
  b_.neighbours.resolve(kA4, now_);
  b_.neighbours.resolve(kA6, now_);
  Host third(options_of(mac("02:00:00:00:00:0c"), ip("192.0.2.12"), ip("2001:db8::12")));
  for (const Frame& question : b_.pumped(now_)) {
    for (const Frame& answer : a_.received(question, now_)) {
      third.received(answer, now_);
      EXPECT_FALSE(third.accepted);
    }
  }
  EXPECT_EQ(third.neighbours.lookup(kA4, now_), std::nullopt);
  EXPECT_EQ(third.neighbours.lookup(kA6, now_), std::nullopt);
}

TEST_F(TwoHosts, DuplicateAddressDetectionIsAnsweredToAll) {
  Frame probe(kDiscoveryFrameBytes);
  DiscoveryMessage message{.source_mac = kMacB,
                           .destination_mac = multicast_mac(solicited_node(kA6)),
                           .source = {},
                           .destination = solicited_node(kA6),
                           .target = kA6,
                           .link_address = kMacB};
  write_discovery(probe, message);
  EXPECT_TRUE(a_.received(probe, now_).empty()) << "the unspecified address has no link address";
  message.link_address = std::nullopt;
  probe.resize(write_discovery(probe, message));
  const std::vector<Frame> answers = a_.received(probe, now_);
  ASSERT_EQ(answers.size(), 1u);
  const auto answer = parse_discovery(answers[0]);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->destination, ip("ff02::1"));
  EXPECT_EQ(answer->destination_mac, mac("33:33:00:00:00:01"));
  EXPECT_FALSE(answer->solicited);
  EXPECT_EQ(a_.neighbours.lookup(kB6, now_), std::nullopt) << "nothing is learned from a probe";
}

TEST_F(TwoHosts, WithoutTheOverrideFlagAKnownAddressStays) {
  a_.neighbours.resolve(kB6, now_);
  exchange();
  Frame advertisement(kDiscoveryFrameBytes);
  DiscoveryMessage message{.advertisement = true,
                           .source_mac = mac("02:00:00:00:00:0c"),
                           .destination_mac = kMacA,
                           .source = kB6,
                           .destination = kA6,
                           .target = kB6,
                           .link_address = mac("02:00:00:00:00:0c")};
  write_discovery(advertisement, message);
  a_.received(advertisement, now_);
  EXPECT_EQ(a_.neighbours.lookup(kB6, now_), kMacB);
  message.override = true;
  write_discovery(advertisement, message);
  a_.received(advertisement, now_);
  EXPECT_EQ(a_.neighbours.lookup(kB6, now_), mac("02:00:00:00:00:0c"));
}

TEST(NeighboursLimits, PeersFillTheTableButDisplaceNothing) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.capacity = 8;
  Host a(options);
  const Instant now{0};
  a.neighbours.resolve(kB4, now);
  for (int i = 20; i < 60; ++i) {
    const Gid address = ip("192.0.2." + std::to_string(i));
    Host peer(options_of(derived_mac(address), address, kB6));
    peer.neighbours.resolve(kA4, now);
    for (const Frame& question : peer.pumped(now))
      EXPECT_EQ(a.received(question, now).size(), 1u) << "answered all the same";
  }
  EXPECT_EQ(a.neighbours.resolve(kB4, now), Resolution::kAsking);
  // A caller's question displaces what peers left behind, but no other question, and not all that is known.
  int asking = 1;
  for (int i = 100; i < 120; ++i) {
    const Resolution resolution = a.neighbours.resolve(ip("192.0.2." + std::to_string(i)), now);
    if (resolution == Resolution::kAsking)
      ++asking;
    else
      EXPECT_EQ(resolution, Resolution::kTableFull);
  }
  EXPECT_EQ(asking, 4);
}

/// Asks for an address and lets its owner answer.
void get_to_know(Host& a, const Gid& address, Instant now) {
  Host owner(options_of(derived_mac(address), address, kB6));
  ASSERT_EQ(a.neighbours.resolve(address, now), Resolution::kAsking);
  for (const Frame& question : a.pumped(now))
    for (const Frame& answer : owner.received(question, now)) a.received(answer, now);
  ASSERT_TRUE(a.neighbours.lookup(address, now)) << "it answers";
}

TEST(NeighboursLimits, QuestionsForAbsentHosts_ExpectThoseInUseKept) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.capacity = 8;
  Host a(options);
  Instant now{0};
  const Gid used[] = {ip("192.0.2.11"), ip("192.0.2.12")};
  for (const Gid& address : used) get_to_know(a, address, now);
  // Strangers that ask for us fill the rest.
  now = now + seconds(1);
  for (int i = 20; i < 60; ++i) {
    const Gid address = ip("192.0.2." + std::to_string(i));
    Host peer(options_of(derived_mac(address), address, kB6));
    peer.neighbours.resolve(kA4, now);
    for (const Frame& question : peer.pumped(now)) a.received(question, now);
  }
  // Whatever is asked for in vain, again and again.
  for (int round = 0; round < 20; ++round) {
    for (int i = 100; i < 200; ++i) a.neighbours.resolve(ip("192.0.2." + std::to_string(i)), now);
    a.pumped(now);
    now = now + seconds(1);
    for (const Gid& address : used) EXPECT_TRUE(a.neighbours.lookup(address, now)) << round;
  }
}

TEST(NeighboursLimits, ManyQuestionsAtOnce_ExpectThemSentAtARate) {
  NeighbourOptions options = options_of(kMacA, kA4, kA6);
  options.addresses[0].bits = 8;
  Host a(options);
  Instant now{0};
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(a.neighbours.resolve(ip("192.1.0." + std::to_string(i)), now), Resolution::kAsking);
  size_t sent = 0;
  for (int ms = 0; ms < 7; ++ms) {
    const size_t count = a.pumped(now).size();
    EXPECT_LE(count, Neighbours::kQuestionsMax);
    EXPECT_TRUE(a.pumped(now).size() + count <= 2 * Neighbours::kQuestionsMax);
    sent += count;
    now = now + Neighbours::kQuestionsEvery;
    EXPECT_LE(a.neighbours.deadline(), std::max(now, Instant{0} + options.ask_every));
  }
  EXPECT_EQ(sent, 200u);
}

TEST(NeighboursLimits, AFullBatchPostponesTheQuestion) {
  uroce::testing::Outbox narrow(1);
  Neighbours neighbours(options_of(kMacA, kA4, kA6));
  neighbours.resolve(kB4, Instant{0});
  neighbours.resolve(kB6, Instant{0});
  neighbours.pump(Instant{0}, narrow.batch());
  EXPECT_EQ(narrow.take().size(), 1u);
  EXPECT_EQ(neighbours.deadline(), Instant{0}) << "the other one is still due";
  neighbours.pump(Instant{0}, narrow.batch());
  EXPECT_EQ(narrow.take().size(), 1u);
}

TEST(NeighbourTable, BehavesLikeAMapUnderRandomUse) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  NeighbourTable table(64);
  std::vector<std::pair<Gid, uint8_t>> model;
  for (int step = 0; step < 20'000; ++step) {
    Gid address;
    address.bytes[15] = static_cast<uint8_t>(random.below(100));
    const auto it = std::ranges::find(model, address, &std::pair<Gid, uint8_t>::first);
    Neighbour* found = table.find(address);
    ASSERT_EQ(found != nullptr, it != model.end()) << step;
    if (found != nullptr) {
      ASSERT_EQ(found->mac.bytes[0], it->second);
      table.erase(address);
      model.erase(it);
    } else if (Neighbour* made = table.insert(address)) {
      made->mac.bytes[0] = static_cast<uint8_t>(random.next());
      model.emplace_back(address, made->mac.bytes[0]);
    } else {
      ASSERT_EQ(model.size(), 64u);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

}  // namespace
}  // namespace uroce::net
