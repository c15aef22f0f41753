#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/counters/counter_texts.h"
#include "sample_frames.h"
#include "wire/big_endian.h"

namespace uroce::wire {
namespace {

const Opcode kSendOnly = Opcode::make(Service::kRc, Operation::kSendOnly);

/// Parses a copy that ends exactly where its allocation ends, so that the sanitizer sees every byte too many.
ParseOutcome parse_exactly(std::span<const std::byte> frame, Packet& packet) {
  const auto copy = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  const ParseOutcome outcome = parse_frame({copy.get(), frame.size()}, packet);
  if (outcome.result == ParseResult::kRoce) {
    // Every span lies inside the frame; then the packet must not outlive the copy.
    EXPECT_GE(packet.payload.data(), copy.get());
    EXPECT_LE(packet.payload.data() + packet.payload.size() + kIcrcBytes, copy.get() + frame.size());
    EXPECT_LE(packet.ip_packet.data() + packet.ip_packet.size() + kIcrcBytes, copy.get() + frame.size());
    icrc_matches(packet);
    packet.payload = packet.ip_packet = {};
  }
  return outcome;
}

ParseOutcome parse_exactly(std::span<const std::byte> frame) {
  Packet packet;
  return parse_exactly(frame, packet);
}

TEST(Truncation, NoPrefixOfAFramePassesForTheFrame) {
  Random random(21);
  for (const NamedPath& named : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      for (const uint32_t bytes : sample_payload_sizes(opcode)) {
        // Long payloads behave like short ones: the IP length tells before anything looks at them.
        if (bytes > 256) continue;
        const Bytes frame = make_sample(named.path, opcode, bytes, random);
        for (size_t length = 0; length < frame.size(); ++length) {
          const ParseOutcome outcome = parse_exactly(std::span(frame).first(length));
          ASSERT_EQ(outcome.result, ParseResult::kDropped)
              << named.name << " " << opcode_row(opcode).name << " cut to " << length;
          ASSERT_EQ(outcome.reason, Counter::kDropTruncated);
        }
      }
    }
  }
}

/// Cuts bytes off the end and makes the IP and UDP lengths (and the header checksum) agree with the rest.
Bytes shortened(const Bytes& frame, const Path& path, size_t length) {
  Bytes cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(length));
  const auto udp_bytes = static_cast<uint16_t>(length - udp_offset(path));
  store_be16(cut.data() + udp_offset(path) + 4, udp_bytes);
  if (path.source.is_ipv4()) {
    store_be16(cut.data() + ip_offset(path) + 2, static_cast<uint16_t>(udp_bytes + 20));
    repair_ipv4_checksum(cut, path);
  } else {
    store_be16(cut.data() + ip_offset(path) + 4, udp_bytes);
  }
  return cut;
}

TEST(Truncation, LengthsThatAgreeDoNotLetATooShortTransportHeaderThrough) {
  Random random(22);
  for (const NamedPath& named : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      const OpcodeRow& row = opcode_row(opcode);
      const Bytes frame = make_sample(named.path, opcode, sample_payload_sizes(opcode).front(), random);
      const size_t needed = bth_offset(named.path) + row.header_bytes + kIcrcBytes;
      for (size_t length = bth_offset(named.path); length < needed; ++length) {
        const ParseOutcome outcome = parse_exactly(shortened(frame, named.path, length));
        ASSERT_EQ(outcome.result, ParseResult::kDropped) << row.name << " with " << length;
        ASSERT_EQ(outcome.reason, Counter::kDropTruncated) << row.name << " with " << length;
      }
    }
  }
}

TEST(Corruption, OfAnyByteIsNeverTakenForAnIntactPacket) {
  const uint64_t seed = 23;
  Random random(seed);
  for (const NamedPath& named : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      const Bytes frame = make_sample(named.path, opcode, sample_payload_sizes(opcode).front(), random);
      for (size_t at = 0; at < frame.size(); ++at) {
        Bytes changed = frame;
        changed[at] ^= static_cast<std::byte>(1 + random.below(255));
        Packet packet;
        if (parse_exactly(changed).result != ParseResult::kRoce) continue;
        ASSERT_EQ(parse_frame(changed, packet).result, ParseResult::kRoce);
        // What is masked, or lies before the IP header, is not the ICRC's to catch.
        const size_t ip = ip_offset(named.path);
        const size_t byte = at - ip;
        const size_t udp = udp_offset(named.path) - ip;
        const bool masked_in_ip =
            packet.ipv4 ? byte == 1 || byte == 8 || byte == 10 || byte == 11 : byte <= 3 || byte == 7;
        const bool masked = at < ip || masked_in_ip || byte == udp + 6 || byte == udp + 7 || byte == udp + 12;
        ASSERT_EQ(icrc_matches(packet), masked)
            << named.name << " " << opcode_row(opcode).name << " byte " << at << " seed " << seed;
      }
    }
  }
}

TEST(Corruption, RandomBytesAreSurvived) {
  const uint64_t seed = 24;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    const auto paths = sample_paths();
    const auto opcodes = valid_opcodes();
    Bytes frame =
        make_sample(paths[random.below(paths.size())].path, opcodes[random.below(opcodes.size())], 8, random);
    frame.resize(random.below(frame.size() + 40));
    for (uint64_t left = random.below(8); left > 0 && !frame.empty(); --left) {
      frame[random.below(frame.size())] = static_cast<std::byte>(random.next());
    }
    const ParseOutcome outcome = parse_exactly(frame);
    EXPECT_LT(static_cast<size_t>(outcome.reason), kCounterCount);
  }
}

/// One deliberate change to a valid frame and what has to become of it.
struct Case {
  const char* what;
  std::function<void(Bytes& frame, const Path& path)> change;
  ParseResult result;
  Counter reason;
};

void run(const Case& test, const NamedPath& named) {
  SCOPED_TRACE(testing::Message() << named.name << ": " << test.what);
  Random random(31);
  Bytes frame = make_sample(named.path, kSendOnly, 16, random);
  test.change(frame, named.path);
  const ParseOutcome outcome = parse_exactly(frame);
  EXPECT_EQ(outcome.result, test.result);
  EXPECT_EQ(texts_of(outcome.reason).label, texts_of(test.reason).label);
}

void set_ip(Bytes& frame, const Path& path, size_t at, int value) {
  frame[ip_offset(path) + at] = static_cast<std::byte>(value);
  if (path.source.is_ipv4()) repair_ipv4_checksum(frame, path);
}
void set_bth(Bytes& frame, const Path& path, size_t at, int value) {
  frame[bth_offset(path) + at] = static_cast<std::byte>(value);
}

constexpr auto kDropped = ParseResult::kDropped;
constexpr auto kNotRoce = ParseResult::kNotRoce;

TEST(Malformed, TransportIsDroppedForItsReason) {
  const Case kCases[] = {
      {"transport version 1", [](Bytes& f, const Path& p) { set_bth(f, p, 1, 0x01); }, kDropped,
       Counter::kDropTransportVersion},
      {"opcode 0x15", [](Bytes& f, const Path& p) { set_bth(f, p, 0, 0x15); }, kDropped,
       Counter::kDropOpcode},
      {"opcode of RD", [](Bytes& f, const Path& p) { set_bth(f, p, 0, 0x44); }, kDropped,
       Counter::kDropOpcode},
      {"CNP prefix alone", [](Bytes& f, const Path& p) { set_bth(f, p, 0, 0x80); }, kDropped,
       Counter::kDropOpcode},
      {"manufacturer's opcode", [](Bytes& f, const Path& p) { set_bth(f, p, 0, 0xC0); }, kDropped,
       Counter::kDropOpcode},
      {"length not a multiple of four", [](Bytes& f, const Path& p) { f = shortened(f, p, f.size() - 1); },
       kDropped, Counter::kDropPad},
      {"pad without payload",
       [](Bytes& f, const Path& p) {
         f = shortened(f, p, f.size() - 16);
         set_bth(f, p, 1, 0x10);
       },
       kDropped, Counter::kDropPad},
      {"payload behind a READ Request",
       [](Bytes& f, const Path& p) {
         f.resize(f.size() + 16);
         f = shortened(f, p, f.size());
         set_bth(f, p, 0, 0x0C);
       },
       kDropped, Counter::kDropPayloadLength},
      {"ATOMIC WRITE without its eight bytes", [](Bytes& f, const Path& p) { set_bth(f, p, 0, 0x1D); },
       kDropped, Counter::kDropPayloadLength},
      {"ATOMIC WRITE with seven bytes",
       [](Bytes& f, const Path& p) {
         f.resize(f.size() + 8);
         f = shortened(f, p, f.size());
         set_bth(f, p, 0, 0x1D);
         set_bth(f, p, 1, 0x10);
       },
       kDropped, Counter::kDropPayloadLength},
      {"4100 bytes of payload",
       [](Bytes& f, const Path& p) {
         f.resize(f.size() - 16 + 4100);
         f = shortened(f, p, f.size());
       },
       kDropped, Counter::kDropPayloadLength},
  };
  for (const NamedPath& named : sample_paths()) {
    for (const Case& test : kCases) run(test, named);
  }
}

TEST(Malformed, EthernetAndUdpAreJudgedTheSameOverBothIpVersions) {
  const Case kCases[] = {
      {"another ethertype", [](Bytes& f, const Path& p) { store_be16(f.data() + ip_offset(p) - 2, 0x0806); },
       kNotRoce, Counter::kRxNotRoce},
      {"another tag inside", [](Bytes& f, const Path& p) { store_be16(f.data() + ip_offset(p) - 2, 0x88A8); },
       kDropped, Counter::kDropEthernet},
      {"ethertype of the other IP version",
       [](Bytes& f, const Path& p) {
         store_be16(f.data() + ip_offset(p) - 2, p.source.is_ipv4() ? 0x86DD : 0x0800);
       },
       kDropped, Counter::kDropIpHeader},
      {"another protocol", [](Bytes& f, const Path& p) { set_ip(f, p, p.source.is_ipv4() ? 9 : 6, 58); },
       kNotRoce, Counter::kRxNotRoce},
      {"another UDP port", [](Bytes& f, const Path& p) { store_be16(f.data() + udp_offset(p) + 2, 53); },
       kNotRoce, Counter::kRxNotRoce},
      {"UDP length longer than IP's",
       [](Bytes& f, const Path& p) {
         std::byte* length = f.data() + udp_offset(p) + 4;
         store_be16(length, static_cast<uint16_t>(load_be16(length) + 1));
       },
       kDropped, Counter::kDropUdpLength},
      {"UDP length shorter than IP's",
       [](Bytes& f, const Path& p) {
         std::byte* length = f.data() + udp_offset(p) + 4;
         store_be16(length, static_cast<uint16_t>(load_be16(length) - 4));
       },
       kDropped, Counter::kDropUdpLength},
      {"wrong UDP checksum",
       [](Bytes& f, const Path& p) { store_be16(f.data() + udp_offset(p) + 6, 0x1234); }, kDropped,
       Counter::kDropUdpChecksum},
  };
  for (const NamedPath& named : sample_paths()) {
    for (const Case& test : kCases) run(test, named);
  }
}

TEST(Malformed, TwoVlanTagsAreDropped) {
  Random random(32);
  for (const NamedPath& named : sample_paths()) {
    if (!named.path.has_vlan) continue;
    Bytes frame = make_sample(named.path, kSendOnly, 16, random);
    const Bytes tag = from_hex("81000001");
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    const ParseOutcome outcome = parse_exactly(frame);
    EXPECT_EQ(outcome.result, kDropped);
    EXPECT_EQ(outcome.reason, Counter::kDropEthernet);
  }
}

void with_ipv4_options(Bytes& frame, const Path& path) {
  const Bytes options = from_hex("94040000");
  frame.insert(frame.begin() + static_cast<ptrdiff_t>(udp_offset(path)), options.begin(), options.end());
  store_be16(frame.data() + ip_offset(path) + 2, static_cast<uint16_t>(frame.size() - ip_offset(path)));
  set_ip(frame, path, 0, 0x46);
}

TEST(Malformed, Ipv4IsDroppedForItsReason) {
  const Case kCases[] = {
      {"wrong header checksum", [](Bytes& f, const Path& p) { f[ip_offset(p) + 10] ^= std::byte{1}; },
       kDropped, Counter::kDropIpChecksum},
      {"header of four words", [](Bytes& f, const Path& p) { set_ip(f, p, 0, 0x44); }, kDropped,
       Counter::kDropIpHeader},
      {"options", with_ipv4_options, kDropped, Counter::kDropIpHeader},
      {"options before another port",
       [](Bytes& f, const Path& p) {
         with_ipv4_options(f, p);
         store_be16(f.data() + udp_offset(p) + 4 + 2, 53);
       },
       kNotRoce, Counter::kRxNotRoce},
      {"options that reach beyond the frame",
       [](Bytes& f, const Path& p) {
         set_ip(f, p, 0, 0x4F);
         f.resize(ip_offset(p) + 60 + 7);
       },
       kDropped, Counter::kDropTruncated},
      {"IGMP with options",
       [](Bytes& f, const Path& p) {
         with_ipv4_options(f, p);
         set_ip(f, p, 9, 2);
       },
       kNotRoce, Counter::kRxNotRoce},
      {"first fragment", [](Bytes& f, const Path& p) { set_ip(f, p, 6, 0x20); }, kDropped,
       Counter::kDropFragment},
      {"first fragment for another port",
       [](Bytes& f, const Path& p) {
         set_ip(f, p, 6, 0x20);
         store_be16(f.data() + udp_offset(p) + 2, 53);
       },
       kNotRoce, Counter::kRxNotRoce},
      {"later fragment", [](Bytes& f, const Path& p) { set_ip(f, p, 7, 0x10); }, kDropped,
       Counter::kDropFragment},
      {"total length below the headers", [](Bytes& f, const Path& p) { set_ip(f, p, 3, 27); }, kDropped,
       Counter::kDropIpHeader},
      {"total length beyond the frame",
       [](Bytes& f, const Path& p) { set_ip(f, p, 3, static_cast<int>(f.size() - ip_offset(p) + 1)); },
       kDropped, Counter::kDropTruncated},
  };
  for (const NamedPath& named : sample_paths()) {
    if (!named.path.source.is_ipv4()) continue;
    for (const Case& test : kCases) run(test, named);
  }
}

/// Puts an extension header of eight bytes before the UDP header.
void with_ipv6_extension(Bytes& frame, const Path& path, int kind, int next) {
  Bytes extension(8);
  extension[0] = static_cast<std::byte>(next);
  frame.insert(frame.begin() + static_cast<ptrdiff_t>(udp_offset(path)), extension.begin(), extension.end());
  store_be16(frame.data() + ip_offset(path) + 4, static_cast<uint16_t>(frame.size() - udp_offset(path)));
  set_ip(frame, path, 6, kind);
}

TEST(Malformed, Ipv6IsDroppedForItsReason) {
  const Case kCases[] = {
      {"hop-by-hop options", [](Bytes& f, const Path& p) { with_ipv6_extension(f, p, 0, 17); }, kDropped,
       Counter::kDropIpHeader},
      {"destination options before another port",
       [](Bytes& f, const Path& p) {
         with_ipv6_extension(f, p, 60, 17);
         store_be16(f.data() + udp_offset(p) + 8 + 2, 53);
       },
       kNotRoce, Counter::kRxNotRoce},
      {"listener report", [](Bytes& f, const Path& p) { with_ipv6_extension(f, p, 0, 58); }, kNotRoce,
       Counter::kRxNotRoce},
      {"fragment", [](Bytes& f, const Path& p) { with_ipv6_extension(f, p, 44, 17); }, kDropped,
       Counter::kDropFragment},
      {"fragment of ICMPv6", [](Bytes& f, const Path& p) { with_ipv6_extension(f, p, 44, 58); }, kNotRoce,
       Counter::kRxNotRoce},
      {"extension header that is not there",
       [](Bytes& f, const Path& p) {
         with_ipv6_extension(f, p, 0, 17);
         f.resize(udp_offset(p) + 7);
       },
       kDropped, Counter::kDropTruncated},
      {"extension header longer than the packet",
       [](Bytes& f, const Path& p) {
         with_ipv6_extension(f, p, 0, 17);
         f[udp_offset(p) + 1] = std::byte{0xFF};
       },
       kDropped, Counter::kDropTruncated},
      {"payload length below a UDP header",
       [](Bytes& f, const Path& p) { store_be16(f.data() + ip_offset(p) + 4, 7); }, kDropped,
       Counter::kDropIpHeader},
      {"payload length beyond the frame",
       [](Bytes& f, const Path& p) {
         store_be16(f.data() + ip_offset(p) + 4, static_cast<uint16_t>(f.size() - udp_offset(p) + 1));
       },
       kDropped, Counter::kDropTruncated},
  };
  for (const NamedPath& named : sample_paths()) {
    if (named.path.source.is_ipv4()) continue;
    for (const Case& test : kCases) run(test, named);
  }
}

/// The checksum that a careful sender would write, by the textbook.
uint16_t udp_checksum(const Bytes& frame, const Path& path) {
  const size_t addresses = path.source.is_ipv4() ? 8 : 32;
  uint32_t sum = 17 + static_cast<uint32_t>(frame.size() - udp_offset(path));
  for (size_t at = udp_offset(path) - addresses; at < frame.size(); at += 2)
    sum += load_be16(frame.data() + at);
  while (sum > 0xFFFF) sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<uint16_t>(~sum);
}

TEST(UdpChecksum, IsVerifiedWhenThereIsOne) {
  Random random(33);
  for (const NamedPath& named : sample_paths()) {
    for (const uint32_t bytes : {0u, 1u, 16u, 1024u, 4096u}) {
      SCOPED_TRACE(testing::Message() << named.name << " " << bytes);
      Bytes frame = make_sample(named.path, kSendOnly, bytes, random);
      store_be16(frame.data() + udp_offset(named.path) + 6, udp_checksum(frame, named.path));
      Packet packet;
      ASSERT_EQ(parse_frame(frame, packet).result, ParseResult::kRoce);
      EXPECT_TRUE(icrc_matches(packet)) << "the checksum is masked";
      frame.back() ^= std::byte{1};
      EXPECT_EQ(parse_exactly(frame).reason, Counter::kDropUdpChecksum);
    }
  }
}

}  // namespace
}  // namespace uroce::wire
