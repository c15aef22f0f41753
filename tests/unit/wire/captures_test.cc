#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/counters/counter_texts.h"
#include "reader.h"
#include "sample_frames.h"
#include "wire/big_endian.h"
#include "wire/print.h"

// Traffic of the Linux kernel: what it sends we understand, and what we send it would have sent.
namespace uroce::wire {
namespace {

template <typename Visit>
void for_each_captured_frame(Visit visit) {
  for (const auto& file : captures::files()) {
    int number = 0;
    for (const captures::Frame& frame : captures::frames(file)) {
      SCOPED_TRACE(testing::Message() << file.filename() << " frame " << ++number);
      visit(frame);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

Path path_of(const Packet& packet) {
  Path path;
  path.source_mac = packet.source_mac;
  path.destination_mac = packet.destination_mac;
  path.has_vlan = packet.has_vlan;
  path.vlan_tci = packet.vlan_tci;
  path.source = packet.source;
  path.destination = packet.destination;
  path.traffic_class = packet.traffic_class;
  path.hop_limit = packet.hop_limit;
  path.udp_source_port = packet.udp_source_port;
  if (!packet.ipv4) path.flow_label = load_be32(packet.ip_packet.data()) & 0xFFFFF;
  return path;
}

TEST(Captures, EveryFrameParsesAndItsIcrcMatches) {
  size_t count = 0;
  std::set<uint8_t> opcodes;
  for_each_captured_frame([&](const captures::Frame& frame) {
    Packet packet;
    const ParseOutcome outcome = parse_frame(frame, packet);
    ASSERT_EQ(outcome.result, ParseResult::kRoce) << texts_of(outcome.reason).label;
    EXPECT_TRUE(icrc_matches(packet)) << to_text(packet);
    ++count;
    opcodes.insert(packet.headers.bth.opcode.value);
  });
  EXPECT_EQ(count, 1776u);
  EXPECT_EQ(opcodes.size(), 35u);
}

TEST(Captures, EmittingTheParsedValuesGivesTheSameBytes) {
  for_each_captured_frame([](const captures::Frame& frame) {
    Packet packet;
    ASSERT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce);
    const Path path = path_of(packet);
    Bytes emitted = make_frame(path, packet.headers, packet.payload);
    ASSERT_EQ(emitted.size(), frame.size());
    if (packet.ipv4) {
      // The kernel numbers its packets and we do not; everything else has to be the same.
      std::memcpy(emitted.data() + ip_offset(path) + 4, frame.data() + ip_offset(path) + 4, 2);
      repair_ipv4_checksum(emitted, path);
      repair_icrc(emitted, path);
    }
    const auto [ours, theirs] = std::ranges::mismatch(emitted, frame);
    EXPECT_EQ(ours - emitted.begin(), static_cast<ptrdiff_t>(frame.size())) << to_text(packet);
    static_cast<void>(theirs);
  });
}

TEST(Captures, ADamagedByteIsSeen) {
  const uint64_t seed = 51;
  Random random(seed);
  for_each_captured_frame([&](const captures::Frame& frame) {
    captures::Frame damaged = frame;
    // The ICRC and the word before it: payload, an extension header or the PSN, none of it masked or a
    // length.
    const size_t at = frame.size() - 1 - random.below(8);
    damaged[at] ^= std::byte{0x10};
    Packet packet;
    ASSERT_EQ(parse_frame(damaged, packet).result, ParseResult::kRoce);
    EXPECT_FALSE(icrc_matches(packet)) << "byte " << at << " seed " << seed;
  });
}

}  // namespace
}  // namespace uroce::wire
