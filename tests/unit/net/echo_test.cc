#include "net/echo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/values/random.h"
#include "net/demux.h"
#include "wire/address_text.h"
#include "wire/big_endian.h"

namespace uroce::net {
namespace {

using Frame = std::vector<std::byte>;

Gid ip(const char* text) { return wire::parse_ip(text).value(); }

const MacAddress kOurs = wire::parse_mac("02:00:00:00:00:0a").value();
const GidTable kGids(kOurs, std::vector<Gid>{ip("192.0.2.10"), ip("2001:db8::10"), ip("203.0.113.10")},
                     std::vector<uint16_t>{0, 0, 7});

Frame bytes(std::initializer_list<int> values) {
  Frame frame;
  for (const int value : values) frame.push_back(static_cast<std::byte>(value));
  return frame;
}

// Written out by hand, with checksums computed apart.
const Frame kRequest4 =
    bytes({0x02, 0, 0,  0,    0,    0x0a, 0x02, 0,    0,    0,    0,    0x0b, 0x08, 0x00, 0x45,
           0,    0, 30, 0x12, 0x34, 0x40, 0,    64,   1,    0xa4, 0x95, 192,  0,    2,    11,
           192,  0, 2,  10,   8,    0,    0x7d, 0x61, 0x12, 0x34, 0,    1,    'h',  'i'});

uint16_t sum_of(const std::byte* data, size_t length, uint32_t sum = 0) {
  for (size_t i = 0; i < length; ++i) sum += std::to_integer<uint32_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum > 0xFFFF) sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<uint16_t>(sum);
}

void set_sum(std::byte* at, uint16_t sum) { wire::store_be16(at, static_cast<uint16_t>(~sum)); }

/// A request of the version of `destination`, with `payload` bytes, untagged.
Frame request(const Gid& source, const Gid& destination, size_t payload) {
  const bool v4 = destination.is_ipv4();
  const size_t header = v4 ? 20 : 40;
  Frame frame(14 + header + 8 + payload);
  std::ranges::copy(std::as_bytes(std::span(kOurs.bytes)), frame.begin());
  frame[6] = std::byte{2};
  frame[11] = std::byte{0x0b};
  wire::store_be16(frame.data() + 12, v4 ? 0x0800 : 0x86DD);
  std::byte* at = frame.data() + 14;
  std::byte* icmp = at + header;
  for (size_t i = 0; i < payload; ++i) icmp[8 + i] = static_cast<std::byte>(i * 7);
  const auto length = static_cast<uint16_t>(8 + payload);
  if (v4) {
    at[0] = std::byte{0x45};
    wire::store_be16(at + 2, static_cast<uint16_t>(20 + length));
    at[8] = std::byte{64};
    at[9] = std::byte{1};
    std::memcpy(at + 12, source.bytes.data() + 12, 4);
    std::memcpy(at + 16, destination.bytes.data() + 12, 4);
    set_sum(at + 10, sum_of(at, 20));
    icmp[0] = std::byte{8};
    set_sum(icmp + 2, sum_of(icmp, length));
  } else {
    at[0] = std::byte{0x60};
    wire::store_be16(at + 4, length);
    at[6] = std::byte{58};
    at[7] = std::byte{64};
    std::memcpy(at + 8, source.bytes.data(), 16);
    std::memcpy(at + 24, destination.bytes.data(), 16);
    icmp[0] = std::byte{128};
    set_sum(icmp + 2, sum_of(icmp, length, uint32_t{sum_of(at + 8, 32)} + length + 58));
  }
  return frame;
}

Frame tagged(Frame frame, uint16_t tci) {
  const Frame tag = bytes({0x81, 0x00, tci >> 8, tci & 0xFF});
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  return frame;
}

Frame reply_to(const Frame& frame, size_t room = 9000) {
  Frame reply(room);
  // Exactly as large, so that a sanitizer sees a read beyond it.
  const auto copy = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  reply.resize(echo_reply({copy.get(), frame.size()}, kGids, reply));
  return reply;
}

TEST(Echo, TheReplyIsTheRequestTheOtherWayRound) {
  ASSERT_TRUE(looks_like_echo(kRequest4, 0));
  Frame expected = kRequest4;
  std::swap_ranges(expected.begin(), expected.begin() + 6, expected.begin() + 6);
  std::swap_ranges(expected.begin() + 26, expected.begin() + 30, expected.begin() + 30);
  expected[34] = std::byte{0};
  expected[36] = std::byte{0x85};  // the checksum is larger by what the type is smaller by
  EXPECT_EQ(reply_to(kRequest4), expected);
}

TEST(Echo, EveryLengthOfBothVersionsIsAnswered) {
  for (const auto& [source, destination] : {std::pair(ip("198.51.100.1"), ip("192.0.2.10")),
                                            std::pair(ip("2001:db8:9::1"), ip("2001:db8::10"))}) {
    const bool v4 = destination.is_ipv4();
    const size_t header = v4 ? 20 : 40;
    for (const size_t payload : {0u, 1u, 2u, 56u, 1473u, 8000u}) {
      const Frame asked = request(source, destination, payload);
      Frame padded = asked;
      padded.resize(std::max<size_t>(padded.size(), 60));
      const Frame reply = reply_to(padded);
      ASSERT_EQ(reply.size(), asked.size()) << payload;
      const std::byte* at = reply.data() + 14;
      const std::byte* icmp = at + header;
      EXPECT_EQ(icmp[0], std::byte{v4 ? uint8_t{0} : uint8_t{129}});
      EXPECT_TRUE(std::equal(icmp + 4, icmp + 8 + payload, asked.data() + 14 + header + 4));
      if (v4) {
        EXPECT_EQ(sum_of(at, 20), 0xFFFF);
        EXPECT_EQ(sum_of(icmp, 8 + payload), 0xFFFF);
      } else {
        EXPECT_EQ(sum_of(icmp, 8 + payload, static_cast<uint32_t>(sum_of(at + 8, 32) + 8 + payload + 58)),
                  0xFFFF);
      }
    }
  }
}

/// The DSCP of a request is the reply's, as in Linux; what the network did to the request is not.
TEST(Echo, EcnBitsOfTheRequestAreNotTheReplys) {
  for (const unsigned ecn : {1u, 2u, 3u}) {
    Frame v4 = request(ip("198.51.100.1"), ip("192.0.2.10"), 8);
    v4[15] = static_cast<std::byte>(0x68 | ecn);
    wire::store_be16(v4.data() + 24, 0);
    set_sum(v4.data() + 24, sum_of(v4.data() + 14, 20));
    const Frame reply4 = reply_to(v4);
    ASSERT_FALSE(reply4.empty());
    EXPECT_EQ(reply4[15], std::byte{0x68});
    EXPECT_EQ(sum_of(reply4.data() + 14, 20), 0xFFFF);

    Frame v6 = request(ip("2001:db8:9::1"), ip("2001:db8::10"), 8);
    wire::store_be32(v6.data() + 14, 6u << 28 | (0x68 | ecn) << 20 | 0x12345);
    const Frame reply6 = reply_to(v6);
    ASSERT_FALSE(reply6.empty());
    EXPECT_EQ(wire::load_be32(reply6.data() + 14), 6u << 28 | 0x68u << 20 | 0x12345);
  }
}

TEST(Echo, AnAddressAnswersInItsVlanOnly) {
  const Frame asked = request(ip("203.0.113.1"), ip("203.0.113.10"), 10);
  EXPECT_TRUE(reply_to(asked).empty());
  EXPECT_TRUE(reply_to(tagged(asked, 8)).empty());
  const Frame reply = reply_to(tagged(asked, 3 << 13 | 7));
  ASSERT_EQ(reply.size(), asked.size() + 4);
  EXPECT_EQ(wire::load_be16(reply.data() + 14), 3 << 13 | 7);
}

TEST(Echo, WhatIsNotForUsOrNotSoundIsNotAnswered) {
  EXPECT_TRUE(reply_to(request(ip("192.0.2.1"), ip("192.0.2.11"), 4)).empty()) << "another address";
  EXPECT_TRUE(reply_to(request(ip("239.1.1.1"), ip("192.0.2.10"), 4)).empty()) << "from a group";
  EXPECT_TRUE(reply_to(request(Gid{}, ip("2001:db8::10"), 4)).empty()) << "without a source";
  EXPECT_TRUE(reply_to(kRequest4, kRequest4.size() - 1).empty()) << "no room";
  const auto with = [](size_t offset, uint8_t value) {
    Frame frame = kRequest4;
    frame[offset] = static_cast<std::byte>(value);
    return frame;
  };
  EXPECT_TRUE(reply_to(with(14, 0x46)).empty()) << "options";
  EXPECT_TRUE(reply_to(with(17, 31)).empty()) << "longer than the frame";
  EXPECT_TRUE(reply_to(with(17, 27)).empty()) << "too short for ICMP";
  EXPECT_TRUE(reply_to(with(20, 0x20)).empty()) << "a fragment";
  EXPECT_TRUE(reply_to(with(24, 0)).empty()) << "header checksum";
  EXPECT_TRUE(reply_to(with(43, 'o')).empty()) << "checksum";
  EXPECT_TRUE(reply_to(with(35, 1)).empty()) << "code";
  EXPECT_FALSE(looks_like_echo(with(34, 0), 0)) << "a reply";
  EXPECT_FALSE(looks_like_echo(with(23, 6), 0)) << "TCP";
}

TEST(Echo, NothingIsReadOutsideOfWhateverComes) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  const Frame seeds[] = {kRequest4, request(ip("2001:db8:9::1"), ip("2001:db8::10"), 20),
                         tagged(request(ip("203.0.113.1"), ip("203.0.113.10"), 20), 7)};
  for (int i = 0; i < 100'000; ++i) {
    Frame frame = seeds[random.below(std::size(seeds))];
    for (uint64_t flips = random.below(3); flips > 0; --flips)
      frame[random.below(frame.size())] = static_cast<std::byte>(random.next());
    frame.resize(random.below(2) == 0 ? frame.size() : random.below(frame.size() + 1));
    const Frame reply = reply_to(frame, random.below(200));
    EXPECT_LE(reply.size(), frame.size());
  }
}

TEST(Echo, TheDemultiplexerTellsItFromTheRest) {
  const Demux demux(kOurs, kGids);
  wire::Packet packet;
  EXPECT_EQ(demux.classify(kRequest4, packet).kind, FrameKind::kEcho);
  EXPECT_EQ(demux.classify(tagged(kRequest4, 7), packet).kind, FrameKind::kEcho);
  Frame elsewhere = kRequest4;
  elsewhere[5] = std::byte{0x0c};
  EXPECT_EQ(demux.classify(elsewhere, packet).reason, Counter::kDropNotOurAddress);
  const Demux beside_kernel(kOurs, kGids, true);
  EXPECT_EQ(beside_kernel.classify(kRequest4, packet).reason, Counter::kRxNotRoce);
}

}  // namespace
}  // namespace uroce::net
