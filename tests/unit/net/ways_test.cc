// From which address and through which router a destination is reached: prefixes, routers, and the kernel
// beside the stack.
#include <optional>
#include <string>
#include <vector>

#include "net/arp.h"
#include "two_hosts.h"

namespace uroce::net {
namespace {

TEST(Source, IsTheAddressWithTheLongestPrefix) {
  Neighbours ours({.mac = kMacA, .addresses = {{kA4, 24}, {ip("192.0.2.200"), 28}, {kA6, 64}}});
  const auto source = [&](const std::string& text) {
    const auto found = ours.source_to(ip(text));
    return found ? found->address : Gid{};
  };
  EXPECT_EQ(source("192.0.2.11"), kA4);
  EXPECT_EQ(source("192.0.2.201"), ip("192.0.2.200"));
  EXPECT_EQ(source("198.51.100.1"), Gid{}) << "on no link";
  EXPECT_EQ(source("2001:db8::11"), kA6);
  EXPECT_EQ(source("2001:db8:1::11"), Gid{});
  EXPECT_EQ(source("fe80::ff:fe00:b"), ip("fe80::ff:fe00:a"));
  EXPECT_EQ(source("239.1.1.1"), kA4) << "a group is reached from the first of its family";
  EXPECT_EQ(source("ff12::1"), kA6);
}

/// With a router to all of 203.0.113.0/24, another to half of it, and one for the rest of the world.
struct Routed : TwoHosts {
  Routed() : TwoHosts(routed_options()) {}
  static NeighbourOptions routed_options() {
    NeighbourOptions options = options_of(kMacA, kA4, kA6);
    options.routes = {{{ip("0.0.0.0"), 0}, kB4},
                      {{ip("203.0.113.0"), 24}, ip("192.0.2.100")},
                      {{ip("203.0.113.128"), 25}, ip("192.0.2.101")},
                      {{ip("192.0.2.128"), 25}, kB4},
                      {{ip("198.51.100.0"), 24}, ip("10.0.0.1")}};
    return options;
  }
  /// The address that A asks for when it is to reach this one.
  Gid asked_for(const char* address) {
    EXPECT_EQ(a_.neighbours.resolve(ip(address), now_), Resolution::kAsking) << address;
    const std::vector<Frame> questions = a_.pumped(now_);
    EXPECT_EQ(questions.size(), 1u) << address;
    const auto question = questions.empty() ? std::nullopt : parse_arp(questions[0]);
    return question ? question->target : Gid{};
  }
};

TEST_F(Routed, TheLongestPrefixSaysWhoIsAsked) {
  EXPECT_EQ(asked_for("203.0.113.5"), ip("192.0.2.100"));
  EXPECT_EQ(asked_for("203.0.113.200"), ip("192.0.2.101"));
  EXPECT_EQ(asked_for("192.0.2.20"), ip("192.0.2.20")) << "on the link";
  EXPECT_EQ(asked_for("10.1.1.1"), kB4);
}

TEST_F(Routed, ARouterIsKnownForAllThatIsBehindIt) {
  EXPECT_EQ(a_.neighbours.resolve(ip("8.8.8.8"), now_), Resolution::kAsking);
  exchange();
  EXPECT_EQ(a_.neighbours.lookup(ip("8.8.8.8"), now_), kMacB);
  EXPECT_EQ(a_.neighbours.resolve(ip("10.9.9.9"), now_), Resolution::kKnown);
  EXPECT_EQ(a_.neighbours.lookup(ip("192.0.2.200"), now_), kMacB) << "a route within our network";
  EXPECT_EQ(a_.neighbours.lookup(ip("198.51.100.7"), now_), kMacB) << "whose own router is nowhere";
}

TEST_F(Routed, WhatIsFarAwayIsReachedFromTheAddressOnTheRoutersLink) {
  a_.neighbours.add_address({ip("203.0.113.10"), 26});
  const auto source_to = [&](const char* to) { return a_.neighbours.source_to(ip(to)); };
  const auto expect = [&](const char* to, const Gid& address, int bits) {
    ASSERT_TRUE(source_to(to)) << to;
    EXPECT_EQ(source_to(to)->address, address) << to;
    EXPECT_EQ(source_to(to)->bits, bits) << to;
  };
  expect("8.8.8.8", kA4, 0);
  expect("203.0.113.200", kA4, 25);
  expect("203.0.113.20", ip("203.0.113.10"), 26);
  expect("192.0.2.20", kA4, 24);
  expect("239.1.2.3", kA4, 0);
  EXPECT_FALSE(source_to("2001:db8:9::1"));
}

TEST_F(Routed, ThereAreNoneOfTheOtherFamily) {
  EXPECT_EQ(a_.neighbours.resolve(ip("2001:db8:9::1"), now_), Resolution::kOffLink);
}

TEST_F(Routed, WithoutOurAddressThereIsNoRouter) {
  a_.neighbours.remove_address(kA4);
  EXPECT_EQ(a_.neighbours.resolve(ip("8.8.8.8"), now_), Resolution::kOffLink);
}

/// A resolver that answers when the test wants.
struct Knowing final : Resolver {
  std::vector<Gid> asked;
  void ask(const Gid& address, uint16_t) override { asked.push_back(address); }
};

struct BesideTheKernel : ::testing::Test {
  Knowing kernel;
  Host a{[this] {
    NeighbourOptions options = options_of(kMacA, kA4, kA6);
    options.resolver = &kernel;
    return options;
  }()};
  const Gid far = ip("203.0.113.1");  // no prefix of ours
  const Instant now{1'000'000};
};

TEST_F(BesideTheKernel, TheKernelIsAskedForTheWay) {
  EXPECT_EQ(a.neighbours.lookup(kA4, now), kMacA);
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking);
  EXPECT_TRUE(a.pumped(now).empty()) << "not by frames";
  EXPECT_EQ(kernel.asked, std::vector<Gid>{far});
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking);
  a.neighbours.resolved(far, far, kMacB, now);
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kKnown);
  EXPECT_EQ(a.neighbours.lookup(far, now), kMacB);
  a.neighbours.resolved(kB4, kB4, kMacB, now);
  EXPECT_EQ(a.neighbours.lookup(kB4, now), std::nullopt) << "no resolver has asked for that";

  a.neighbours.forget();
  EXPECT_EQ(a.neighbours.lookup(far, now), std::nullopt);
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking);
}

TEST_F(BesideTheKernel, ANeighboursEventConcernsWhatItIsTheHopOf) {
  const Gid router = ip("192.0.2.1");
  const MacAddress other = mac("02:00:00:00:00:0c");
  for (const Gid& address : {far, kB4}) EXPECT_EQ(a.neighbours.resolve(address, now), Resolution::kAsking);
  a.neighbours.resolved(far, router, kMacB, now);
  a.neighbours.resolved(kB4, kB4, kMacB, now);

  a.neighbours.forget_hop(ip("192.0.2.77"), std::nullopt);
  a.neighbours.forget_hop(far, std::nullopt);
  a.neighbours.forget_hop(router, kMacB);
  EXPECT_EQ(a.neighbours.lookup(far, now), kMacB) << "the router is where it was";
  EXPECT_EQ(a.neighbours.lookup(kB4, now), kMacB);
  a.neighbours.forget_hop(router, other);
  EXPECT_EQ(a.neighbours.lookup(far, now), std::nullopt);
  EXPECT_EQ(a.neighbours.lookup(kB4, now), kMacB);
  a.neighbours.forget_hop(kB4, std::nullopt);
  EXPECT_EQ(a.neighbours.lookup(kB4, now), std::nullopt);
}

TEST_F(BesideTheKernel, ThatThereIsNoWayIsToldOnce) {
  for (const Resolution why : {Resolution::kOffLink, Resolution::kNoAnswer}) {
    EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking);
    a.neighbours.resolution_failed(far, why);
    EXPECT_EQ(a.neighbours.resolve(far, now), why);
  }
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking);
  a.neighbours.forget();
  EXPECT_EQ(a.neighbours.resolve(far, now), Resolution::kAsking) << "a question stays one";
}

TEST_F(BesideTheKernel, NoAnswerAtAllIsOneToo) {
  Instant later = now;
  EXPECT_EQ(a.neighbours.resolve(far, later), Resolution::kAsking);
  while (a.neighbours.deadline() != kNever) {
    later = a.neighbours.deadline();
    a.pumped(later);
  }
  EXPECT_EQ(kernel.asked.size(), 6u);
  EXPECT_EQ(a.neighbours.resolve(far, later), Resolution::kNoAnswer);
}

}  // namespace
}  // namespace uroce::net
