// Whatever comes in: nothing is read outside the frame, nothing crashes, nothing is learned from a broken
// frame.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/values/random.h"
#include "net/demux.h"
#include "net/derived_mac.h"
#include "net/neighbours.h"
#include "outbox.h"
#include "wire/address_text.h"
#include "wire/big_endian.h"

namespace uroce::net {
namespace {

using Frame = std::vector<std::byte>;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }
MacAddress mac(const char* text) { return wire::parse_mac(text).value(); }

const MacAddress kOurs = mac("02:00:00:00:00:0a");
const MacAddress kTheirs = mac("02:00:00:00:00:0b");

NeighbourOptions our_options() {
  return {.mac = kOurs, .addresses = {{ip("192.0.2.10"), 24}, {ip("2001:db8::10"), 64}}};
}

Frame arp_frame(bool reply) {
  Frame frame(kArpFrameBytes);
  write_arp(frame,
            {.reply = reply,
             .sender_mac = kTheirs,
             .sender = ip("192.0.2.11"),
             .target_mac = kOurs,
             .target = ip("192.0.2.10")},
            kOurs);
  return frame;
}

Frame discovery_frame(bool advertisement) {
  Frame frame(kDiscoveryFrameBytes);
  const Gid theirs = ip("2001:db8::11");
  const Gid ours = ip("2001:db8::10");
  write_discovery(frame, {.advertisement = advertisement,
                          .source_mac = kTheirs,
                          .destination_mac = kOurs,
                          .source = theirs,
                          .destination = ours,
                          .target = advertisement ? theirs : ours,
                          .link_address = kTheirs,
                          .solicited = advertisement,
                          .override = advertisement});
  return frame;
}

std::vector<Frame> good_frames() {
  return {arp_frame(false), arp_frame(true), discovery_frame(false), discovery_frame(true)};
}

/// Gives the frame in a block of exactly its size, so that an address sanitizer sees any step outside.
bool feed(Neighbours& neighbours, const Frame& frame) {
  uroce::testing::Outbox outbox;
  const auto block = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, block.get());
  const std::span<const std::byte> bytes(block.get(), frame.size());
  GidTable gids(kOurs, {});
  wire::Packet packet;
  (void)Demux(kOurs, gids).classify(bytes, packet);
  const bool accepted = neighbours.receive(bytes, Instant{0}, outbox.batch());
  outbox.take();
  return accepted;
}

TEST(Malformed, TheFramesAreGoodBeforeTheyAreBroken) {
  Neighbours neighbours(our_options());
  neighbours.resolve(ip("192.0.2.11"), Instant{0});
  neighbours.resolve(ip("2001:db8::11"), Instant{0});
  for (const Frame& frame : good_frames()) EXPECT_TRUE(feed(neighbours, frame));
}

TEST(Malformed, EveryTruncationIsRefused) {
  for (const Frame& good : good_frames()) {
    // Ethernet padding may go: an ARP message is 42 bytes.
    const size_t needed = good.size() == kArpFrameBytes ? 42 : good.size();
    for (size_t length = 0; length < needed; ++length) {
      Neighbours neighbours(our_options());
      EXPECT_FALSE(feed(neighbours, Frame(good.begin(), good.begin() + static_cast<ptrdiff_t>(length))))
          << length;
      EXPECT_EQ(neighbours.lookup(ip("192.0.2.11"), Instant{0}), std::nullopt);
      EXPECT_EQ(neighbours.lookup(ip("2001:db8::11"), Instant{0}), std::nullopt);
    }
  }
}

TEST(Malformed, EverySingleBitOfADiscoveryMessageIsGuardedByItsChecks) {
  for (const bool advertisement : {false, true}) {
    const Frame good = discovery_frame(advertisement);
    for (size_t bit = 14 * 8; bit < good.size() * 8; ++bit) {
      const size_t at = bit / 8;
      if (at == 14 || (at > 14 && at < 14 + 4))
        continue;  // version's low bits, traffic class, flow label: no checksum
      Frame bad = good;
      bad[at] ^= static_cast<std::byte>(1u << bit % 8);
      Neighbours neighbours(our_options());
      neighbours.resolve(ip("2001:db8::11"), Instant{0});
      EXPECT_FALSE(feed(neighbours, bad)) << "byte " << at << " bit " << bit % 8;
      EXPECT_EQ(neighbours.lookup(ip("2001:db8::11"), Instant{0}), std::nullopt);
    }
  }
}

TEST(Malformed, AnOptionOfLengthZeroEndsTheReading) {
  Frame frame = discovery_frame(false);
  // The checksum gains what the option loses, so that only the option is wrong.
  frame[14 + 40 + 24 + 1] = std::byte{0};
  const uint16_t checksum = wire::load_be16(frame.data() + 14 + 40 + 2);
  wire::store_be16(frame.data() + 14 + 40 + 2, static_cast<uint16_t>(checksum + 1));
  EXPECT_FALSE(parse_discovery(frame));
  frame[14 + 40 + 24 + 1] = std::byte{1};
  wire::store_be16(frame.data() + 14 + 40 + 2, checksum);
  EXPECT_TRUE(parse_discovery(frame));
}

TEST(Malformed, AGroupIsNoHostsMac) {
  Frame frame = arp_frame(true);
  frame[14 + 8] = std::byte{0xFF};
  EXPECT_FALSE(parse_arp(frame));
}

TEST(Malformed, RandomDamageNeverCrashes) {
  const uint64_t seed = 20'26;
  SCOPED_TRACE(seed);
  Random random(seed);
  Neighbours neighbours(our_options());
  const std::vector<Frame> good = good_frames();
  for (int i = 0; i < 200'000; ++i) {
    Frame frame = good[random.below(good.size())];
    for (uint64_t damage = random.below(4); damage > 0; --damage) {
      frame[random.below(frame.size())] = static_cast<std::byte>(random.next());
    }
    frame.resize(random.below(frame.size() + 20));
    feed(neighbours, frame);
  }
}

}  // namespace
}  // namespace uroce::net
