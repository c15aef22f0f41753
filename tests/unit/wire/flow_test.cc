#include "wire/flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sample_frames.h"
#include "wire/print.h"

// A known flow is never wrong about a frame, and does not give up where it could know.
namespace uroce::wire {
namespace {

Path path() { return sample_paths().at(0).path; }

void expect_same(const Packet& packet, const Packet& expected) {
  EXPECT_EQ(packet.row, expected.row);
  EXPECT_EQ(to_text(packet), to_text(expected));
  EXPECT_EQ(packet.payload.data(), expected.payload.data());
  EXPECT_EQ(packet.payload.size(), expected.payload.size());
  EXPECT_EQ(packet.source_mac, expected.source_mac);
  EXPECT_EQ(packet.destination_mac, expected.destination_mac);
  EXPECT_EQ(packet.has_vlan, expected.has_vlan);
  EXPECT_EQ(packet.vlan_tci, expected.vlan_tci);
  EXPECT_EQ(packet.source, expected.source);
  EXPECT_EQ(packet.destination, expected.destination);
  EXPECT_EQ(packet.ipv4, expected.ipv4);
  EXPECT_EQ(packet.traffic_class, expected.traffic_class);
  EXPECT_EQ(packet.hop_limit, expected.hop_limit);
  EXPECT_EQ(packet.udp_source_port, expected.udp_source_port);
  EXPECT_EQ(packet.ip_packet.data(), expected.ip_packet.data());
  EXPECT_EQ(packet.ip_packet.size(), expected.ip_packet.size());
  EXPECT_EQ(packet.icrc, expected.icrc);
}

/// A packet that was parsed before, in whose place the next one comes.
Packet parsed(const Bytes& frame) {
  Packet packet;
  EXPECT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce);
  return packet;
}

/// That of a frame which is not there any more.
FlowCache flow_of(Bytes frame) {
  FlowCache flow;
  flow.learn(parsed(frame));
  std::ranges::fill(frame, std::byte{0xEE});
  return flow;
}

/// As a poller does: what is like the last one is not parsed once more.
ParseOutcome parse_by(FlowCache& flow, std::span<const std::byte> frame, size_t ip_bytes, Packet& packet) {
  if (!flow.is_prediction_hit(frame)) return flow.parse_hit(frame, ip_bytes, packet);
  flow.parse_prediction_hit(frame, ip_bytes, packet);
  return {ParseResult::kRoce, Counter::kRxFrames};
}

/// What the flow says of `frame`, if anything, is what parse_frame() says. True: it did.
bool agrees_in_place(std::span<const std::byte> frame, FlowCache& flow, const Bytes& stale) {
  Packet packet = parsed(stale);
  Packet expected = packet;
  const size_t ip_bytes = flow.match(frame);
  if (ip_bytes == 0) return false;
  EXPECT_EQ(flow.match(frame), ip_bytes) << "once more";
  const ParseOutcome outcome = parse_by(flow, frame, ip_bytes, packet);
  const ParseOutcome right = parse_frame(frame, expected);
  EXPECT_EQ(outcome.result, right.result);
  EXPECT_EQ(outcome.reason, right.reason);
  if (right.result == ParseResult::kRoce) {
    expect_same(packet, expected);
    EXPECT_EQ(icrc_matches(packet), icrc_matches(expected));
  }
  return true;
}

bool agrees(std::span<const std::byte> frame, FlowCache flow, const Bytes& stale) {
  const bool agreed = agrees_in_place(frame, flow, stale);
  // Now it is the last one itself: like the next, and then known by its checksum.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(agrees_in_place(frame, flow, stale), agreed);
  return agreed;
}

TEST(Flow, EveryPacketIsKnownByAnyOther) {
  Random random(1);
  const Bytes first = make_sample(path(), Opcode::make(Service::kRc, Operation::kAcknowledge), 0, random);
  const Bytes stale = make_sample(sample_paths().at(1).path, valid_opcodes().front(), 256, random);
  const FlowCache flow = flow_of(first);
  for (const Opcode opcode : valid_opcodes()) {
    for (const uint32_t bytes : sample_payload_sizes(opcode)) {
      SCOPED_TRACE(bytes);
      const Bytes frame = make_sample(path(), opcode, bytes, random);
      EXPECT_TRUE(agrees(frame, flow, stale));
      EXPECT_TRUE(agrees(first, flow_of(frame), stale));
    }
  }
}

TEST(Flow, WhateverIsBrokenTheAnswerIsThatOfTheWholeParse) {
  Random random(2);
  const Opcode opcode = Opcode::make(Service::kRc, Operation::kWriteOnlyImm);
  const Bytes first = make_sample(path(), opcode, 13, random);
  const Bytes good = make_sample(path(), opcode, 64, random);
  const FlowCache flow = flow_of(first);
  for (size_t at = 0; at < good.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      for (const bool repaired : {false, true}) {
        SCOPED_TRACE(testing::Message() << "bit " << bit << " of byte " << at);
        Bytes frame = good;
        frame[at] ^= std::byte{1} << bit;
        if (repaired) repair_ipv4_checksum(frame, path());
        (void)agrees(frame, flow, first);
      }
    }
  }
  for (size_t bytes = 0; bytes <= good.size(); ++bytes) {
    // A copy of exactly that length: a sanitizer sees what is read behind it.
    const Bytes frame(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(agrees(frame, flow, first), bytes == good.size()) << bytes;
  }
}

TEST(Flow, WhatComesFromElsewhereIsAnother) {
  Random random(3);
  const Opcode opcode = Opcode::make(Service::kRc, Operation::kSendOnly);
  for (const NamedPath& from : sample_paths()) {
    const Bytes first = make_sample(from.path, opcode, 64, random);
    for (const NamedPath& to : sample_paths()) {
      SCOPED_TRACE(from.name + ", then " + to.name);
      const bool same = from.name == to.name;
      const bool simple = !from.path.has_vlan && from.path.source.is_ipv4();
      EXPECT_EQ(agrees(make_sample(to.path, opcode, 64, random), flow_of(first), first), same && simple);
    }
  }
  FlowCache flow = flow_of(make_sample(path(), opcode, 64, random));
  flow.forget();
  EXPECT_FALSE(agrees(make_sample(path(), opcode, 64, random), flow, make_sample(path(), opcode, 8, random)));
  flow = flow_of(make_sample(path(), opcode, 64, random));
  flow.learn(parsed(make_sample(sample_paths().at(1).path, opcode, 64, random)));
  EXPECT_FALSE(agrees(make_sample(path(), opcode, 64, random), flow, make_sample(path(), opcode, 8, random)));
}

TEST(Flow, WhateverComesAfterWhatTheAnswerIsThatOfTheWholeParse) {
  Random random(5);
  const Bytes stale = make_sample(path(), Opcode::make(Service::kRc, Operation::kWriteOnlyImm), 13, random);
  std::vector<Bytes> kinds;
  for (const Operation operation : {Operation::kSendOnly, Operation::kWriteOnly, Operation::kAcknowledge}) {
    const Opcode opcode = Opcode::make(Service::kRc, operation);
    kinds.push_back(make_sample(path(), opcode, operation == Operation::kAcknowledge ? 0 : 64, random));
  }
  FlowCache flow = flow_of(kinds[0]);
  size_t known = 0;
  size_t like = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random.chance(1, 4)) std::swap(kinds[0], kinds[random.below(kinds.size())]);
    Bytes& frame = kinds[0];
    // Behind the beginning of the BTH nearly everything differs from packet to packet.
    const size_t psn = bth_offset(path()) + 8;
    for (size_t at = psn; at < frame.size(); ++at) frame[at] = static_cast<std::byte>(random.next());
    if (random.chance(7, 8)) repair_icrc(frame, path());
    Bytes broken = frame;
    if (random.chance(1, 4)) broken[random.below(broken.size())] ^= std::byte{1} << random.below(8);
    if (random.chance(1, 16)) broken.resize(random.below(broken.size()));
    if (flow.match(broken) != 0 && flow.is_prediction_hit(broken)) ++like;
    if (agrees_in_place(broken, flow, stale)) {
      ++known;
    } else if (Packet packet; parse_frame(broken, packet).result == ParseResult::kRoce) {
      flow.learn(packet);
    }
  }
  EXPECT_GT(known, 10000u);
  EXPECT_GT(like, 5000u);
}

TEST(Flow, EveryQueuePairOfAPeerIsKnownByAnyOther) {
  Random random(4);
  const Opcode opcode = Opcode::make(Service::kRc, Operation::kSendOnly);
  Path other = path();
  other.udp_source_port ^= 0x1001;
  const Bytes first = make_sample(path(), opcode, 64, random);
  for (const uint32_t bytes : {64u, 200u})
    EXPECT_TRUE(agrees(make_sample(other, opcode, bytes, random), flow_of(first), first));
}

}  // namespace
}  // namespace uroce::wire
