#include <gtest/gtest.h>

#include <algorithm>

#include "sample_frames.h"
#include "wire/address_text.h"
#include "wire/big_endian.h"
#include "wire/frame_builder.h"

namespace uroce::wire {
namespace {

void expect_same_bth(const Bth& parsed, const Bth& sent) {
  EXPECT_EQ(parsed.opcode, sent.opcode);
  EXPECT_EQ(parsed.solicited, sent.solicited);
  EXPECT_EQ(parsed.migration, sent.migration);
  EXPECT_EQ(parsed.partition_key, sent.partition_key);
  EXPECT_EQ(parsed.fecn, sent.fecn);
  EXPECT_EQ(parsed.becn, sent.becn);
  EXPECT_EQ(parsed.destination, sent.destination);
  EXPECT_EQ(parsed.ack_request, sent.ack_request);
  EXPECT_EQ(parsed.psn, sent.psn);
}

void expect_same_memory_headers(const Headers& parsed, const Headers& sent, HeaderSet set) {
  if (set.has(Header::kReth)) {
    EXPECT_EQ(parsed.reth.address, sent.reth.address);
    EXPECT_EQ(parsed.reth.rkey, sent.reth.rkey);
    EXPECT_EQ(parsed.reth.length, sent.reth.length);
  }
  if (set.has(Header::kAtomicEth)) {
    EXPECT_EQ(parsed.atomic.address, sent.atomic.address);
    EXPECT_EQ(parsed.atomic.rkey, sent.atomic.rkey);
    EXPECT_EQ(parsed.atomic.swap_or_add, sent.atomic.swap_or_add);
    EXPECT_EQ(parsed.atomic.compare, sent.atomic.compare);
  }
  if (set.has(Header::kFeth)) {
    EXPECT_EQ(parsed.feth.global_visibility, sent.feth.global_visibility);
    EXPECT_EQ(parsed.feth.persistence, sent.feth.persistence);
    EXPECT_EQ(parsed.feth.whole_region, sent.feth.whole_region);
  }
  if (set.has(Header::kInvalidate)) {
    EXPECT_EQ(parsed.invalidate, sent.invalidate);
  }
}

void expect_same_other_headers(const Headers& parsed, const Headers& sent, HeaderSet set) {
  if (set.has(Header::kAeth)) {
    EXPECT_EQ(parsed.aeth.kind, sent.aeth.kind);
    EXPECT_EQ(parsed.aeth.value, sent.aeth.value);
    EXPECT_EQ(parsed.aeth.msn, sent.aeth.msn);
  }
  if (set.has(Header::kAtomicAckEth)) {
    EXPECT_EQ(parsed.atomic_original, sent.atomic_original);
  }
  if (set.has(Header::kDeth)) {
    EXPECT_EQ(parsed.deth.qkey, sent.deth.qkey);
    EXPECT_EQ(parsed.deth.source, sent.deth.source);
  }
  if (set.has(Header::kImmediate)) {
    EXPECT_EQ(parsed.immediate, sent.immediate);
  }
  if (set.has(Header::kXrcEth)) {
    EXPECT_EQ(parsed.xrc_srq, sent.xrc_srq);
  }
}

void expect_same_path(const Packet& parsed, const Path& path) {
  EXPECT_EQ(parsed.source_mac, path.source_mac);
  EXPECT_EQ(parsed.destination_mac, path.destination_mac);
  EXPECT_EQ(parsed.has_vlan, path.has_vlan);
  EXPECT_EQ(parsed.vlan_tci, path.vlan_tci);
  EXPECT_EQ(parsed.ipv4, path.source.is_ipv4());
  EXPECT_EQ(parsed.source, path.source);
  EXPECT_EQ(parsed.destination, path.destination);
  EXPECT_EQ(parsed.traffic_class, path.traffic_class);
  EXPECT_EQ(parsed.hop_limit, path.hop_limit);
  EXPECT_EQ(parsed.udp_source_port, path.udp_source_port);
}

TEST(RoundTrip, EveryOpcodeSizeAndPathComesBackAsItWasSent) {
  const uint64_t seed = 0x2B1D;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  Packet packet;  // Reused without clearing, as a poller does.
  for (const NamedPath& named : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      const OpcodeRow& row = opcode_row(opcode);
      for (const uint32_t bytes : sample_payload_sizes(opcode)) {
        SCOPED_TRACE(testing::Message() << named.name << ", " << row.name << ", " << bytes << " bytes");
        const Headers headers = sample_headers(opcode, random);
        const Bytes payload = sample_payload(bytes, random);
        const Bytes frame = make_frame(named.path, headers, payload);
        ASSERT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce);
        EXPECT_EQ(packet.row, &row);
        EXPECT_EQ(packet.headers.bth.pad, (4 - bytes % 4) % 4);
        EXPECT_TRUE(std::ranges::equal(packet.payload, payload));
        EXPECT_TRUE(icrc_matches(packet));
        expect_same_path(packet, named.path);
        expect_same_bth(packet.headers.bth, headers.bth);
        expect_same_memory_headers(packet.headers, headers, row.headers);
        expect_same_other_headers(packet.headers, headers, row.headers);
      }
    }
  }
}

TEST(RoundTrip, EthernetPaddingBehindThePacketIsNotPartOfIt) {
  Random random(3);
  for (const NamedPath& named : sample_paths()) {
    Bytes frame = make_sample(named.path, Opcode::make(Service::kRc, Operation::kSendOnly), 5, random);
    frame.resize(frame.size() + 18, std::byte{0x5A});
    Packet packet;
    ASSERT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce);
    EXPECT_EQ(packet.payload.size(), 5u);
    EXPECT_TRUE(icrc_matches(packet));
  }
}

TEST(Emit, WritesTheIpHeaderThatRoceWants) {
  Random random(5);
  const Path path = sample_paths()[0].path;
  const Bytes frame = make_sample(path, Opcode::make(Service::kRc, Operation::kSendOnly), 16, random);
  const std::byte* ip = frame.data() + ip_offset(path);
  EXPECT_EQ(load_be16(ip + 2), frame.size() - ip_offset(path));
  EXPECT_EQ(load_be16(ip + 4), 0) << "identification";
  EXPECT_EQ(load_be16(ip + 6), 0x4000) << "do not fragment";
  EXPECT_EQ(load_be16(ip + 20 + 2), kRoceUdpPort);
  EXPECT_EQ(load_be16(ip + 20 + 4), frame.size() - udp_offset(path));
  EXPECT_EQ(load_be16(ip + 20 + 6), 0) << "UDP checksum";
  Bytes repaired = frame;
  repair_ipv4_checksum(repaired, path);
  EXPECT_EQ(repaired, frame) << "header checksum";
}

TEST(Emit, KeepsTooWideNumbersOutOfTheFieldsBesideThem) {
  Random random(6);
  const Path path = sample_paths()[2].path;
  for (const Opcode opcode :
       {Opcode::make(Service::kUd, Operation::kSendOnly), Opcode::make(Service::kXrc, Operation::kSendOnly),
        Opcode::make(Service::kRc, Operation::kAcknowledge)}) {
    const Headers headers = sample_headers(opcode, random);
    Headers wide = headers;
    wide.bth.destination.value |= 0xFF000000;
    wide.deth.source.value |= 0xFF000000;
    wide.xrc_srq |= 0xFF000000;
    wide.aeth.msn |= 0xFF000000;
    wide.aeth.value |= 0xE0;
    EXPECT_EQ(make_frame(path, wide, {}), make_frame(path, headers, {})) << opcode_row(opcode).name;
  }
  Path wide_path = path;
  wide_path.flow_label |= 0xFFF00000;
  const Headers headers = sample_headers(Opcode::make(Service::kRc, Operation::kSendOnly), random);
  EXPECT_EQ(make_frame(wide_path, headers, {}), make_frame(path, headers, {}));
}

TEST(Transport, ReservedBitsAreWrittenAsZeroAndIgnored) {
  Random random(8);
  const Path path = sample_paths()[2].path;
  for (const OpcodeRow& row : kOpcodeRows) {
    if (!row.valid) continue;
    const Headers headers = sample_headers(row.opcode, random);
    Bytes frame = make_frame(path, headers, Bytes(row.payload_bytes_min));
    std::byte* const bth = frame.data() + FrameTemplate(path).bytes();
    EXPECT_EQ(load_u8(bth + 4) & 0x3F, 0) << row.name;
    EXPECT_EQ(load_u8(bth + 8) & 0x7F, 0) << row.name;
    bth[4] |= std::byte{0x3F};
    bth[8] |= std::byte{0x7F};
    repair_icrc(frame, path);
    Packet packet;
    ASSERT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce) << row.name;
    EXPECT_TRUE(icrc_matches(packet)) << row.name;
    expect_same_bth(packet.headers.bth, headers.bth);
  }
}

TEST(Emit, ReproducesAFrameWrittenByHand) {
  // The RC SEND Only of the ICRC vectors, with our identification (0), DF and the checksum that follows.
  Path path;
  path.source_mac = *parse_mac("02:00:00:00:00:01");
  path.destination_mac = *parse_mac("02:00:00:00:00:02");
  path.source = *parse_ip("198.51.100.1");
  path.destination = *parse_ip("198.51.100.2");
  path.udp_source_port = 0xC123;
  Headers headers;
  headers.bth.opcode = Opcode::make(Service::kRc, Operation::kSendOnly);
  headers.bth.destination = {0x12};
  headers.bth.ack_request = true;
  headers.bth.psn = Psn(0xABC);
  const Bytes frame = make_frame(path, headers, from_hex("68656c6c6f"));
  Bytes expected = from_hex(
      "020000000002 020000000001 0800 45000034 00004000 4011a6d6 c6336401 c6336402 c12312b7 00200000"
      "0430ffff 00000012 80000abc 68656c6c6f 000000 00000000");
  repair_ipv4_checksum(expected, path);
  repair_icrc(expected, path);
  EXPECT_EQ(frame, expected);
}

TEST(Emit, WritesEachPacketToAPeerAsIfItWereTheFirst) {
  const Operation operations[] = {Operation::kSendOnly, Operation::kWriteOnly, Operation::kAcknowledge};
  Random random(5);
  for (const NamedPath& named : sample_paths()) {
    SCOPED_TRACE(named.name);
    FrameTemplate path(named.path);
    const bool mig_req = random.chance(1, 2);
    path.set_peer(0x8123, QpNumber{0x54321}, mig_req);
    const FrameTemplate fresh = path;
    for (int i = 0; i < 500; ++i) {
      const Opcode opcode = Opcode::make(Service::kRc, operations[random.below(3)]);
      const bool may_carry = opcode.operation() != Operation::kAcknowledge;
      const auto bytes = may_carry ? static_cast<uint32_t>(61 + random.below(2)) : 0;
      const PacketBth bth{.opcode = opcode,
                          .solicited = random.chance(1, 8),
                          .ack_request = random.chance(1, 2),
                          .psn = Psn(static_cast<uint32_t>(random.next()))};
      // Two in a row of each, at least: the second is made of the first.
      for (int again = 0; again < 3; ++again) {
        std::vector<Bytes> written;
        FrameTemplate once = fresh;
        uint32_t before_psn = 0;
        for (FrameTemplate* const by : {&path, &once}) {
          Bytes frame(2048, std::byte{0xEE});
          const FrameBuilder making(frame.data(), frame.size(), *by, bth, bytes);
          before_psn = std::max(before_psn, making.icrc_before_psn());
          frame.resize(making.bytes());
          written.push_back(frame);
        }
        ASSERT_EQ(written[0], written[1]);
        const std::span<const std::byte> ip_packet = std::span(written[0]).subspan(path.ip_offset());
        if (before_psn != 0) {
          ASSERT_EQ(before_psn, icrc_before_psn(ip_packet));
        }
        Packet packet;
        ASSERT_EQ(parse_frame(written[0], packet).result, ParseResult::kRoce);
        EXPECT_EQ(packet.headers.bth.psn, bth.psn);
        EXPECT_EQ(packet.headers.bth.ack_request, bth.ack_request);
        EXPECT_EQ(packet.headers.bth.solicited, bth.solicited);
        EXPECT_EQ(packet.headers.bth.migration, mig_req);
        EXPECT_EQ(packet.headers.bth.opcode, opcode);
        EXPECT_EQ(packet.headers.bth.destination, QpNumber{0x54321});
        EXPECT_EQ(packet.headers.bth.partition_key, 0x8123);
        EXPECT_EQ(packet.payload.size(), bytes);
      }
    }
  }
}

TEST(UdpSourcePort, FollowsTheFlowLabelOrElseBothQueuePairs) {
  EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0x00001, {1}, {2}), 0xC001);
  EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0xFFFFF, {1}, {2}), 0xC000 | (0x3FFF ^ 0x3F));
  EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0x04000, {1}, {2}), 0xC001);
  // 0x11 * 0x12 = 0x132 is below 2^20: nothing to fold in.
  EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0, {0x11}, {0x12}), 0xC132);
  EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0, {0x123456}, {0xABCDEF}), 0xC3C8)
      << "by the formula, computed elsewhere";
}

TEST(UdpSourcePort, IsTheSameFromBothEndsAndAlwaysInTheEphemeralRange) {
  Random random(9);
  for (int round = 0; round < 1000; ++round) {
    const QpNumber local{static_cast<uint32_t>(random.below(1 << 24))};
    const QpNumber remote{static_cast<uint32_t>(random.below(1 << 24))};
    EXPECT_EQ(udp_source_port(SourcePorts::kFlowLabel, 0, local, remote),
              udp_source_port(SourcePorts::kFlowLabel, 0, remote, local));
    EXPECT_GE(udp_source_port(SourcePorts::kFlowLabel, 0, local, remote), 0xC000);
  }
}

TEST(UdpSourcePort, MayFollowOurOwnQueuePairAlone) {
  const auto port = [](uint32_t local, uint32_t flow_label = 0, uint32_t remote = 1) {
    return udp_source_port(SourcePorts::kQueuePair, flow_label, {local}, {remote});
  };
  // The number times 0x61C88647 in 32 bits, of which the upper 14 count; computed elsewhere.
  EXPECT_EQ(port(1), 0xD872);
  EXPECT_EQ(port(0x11), 0xDF94);
  EXPECT_EQ(port(0x123456), 0xC168);
  EXPECT_EQ(port(0xFFFFFF), 0xF94D);
  EXPECT_EQ(port(0x11, 0xABCDE, 0x77), port(0x11)) << "nothing else counts";
}

}  // namespace
}  // namespace uroce::wire
