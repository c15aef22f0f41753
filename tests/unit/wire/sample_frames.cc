#include "sample_frames.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "wire/address_text.h"
#include "wire/icrc/icrc.h"

namespace uroce::wire {
namespace {

uint32_t bits(Random& random, int count) { return static_cast<uint32_t>(random.next() >> (64 - count)); }

Path base_path(const char* source, const char* destination) {
  Path path;
  path.source_mac = *parse_mac("02:00:00:00:09:01");
  path.destination_mac = *parse_mac("02:00:00:00:09:02");
  path.source = *parse_ip(source);
  path.destination = *parse_ip(destination);
  path.traffic_class = 0x6A;
  path.hop_limit = 61;
  path.udp_source_port = 0xD3C5;
  return path;
}

Path tagged(Path path) {
  path.has_vlan = true;
  path.vlan_tci = 0x6123;
  return path;
}

uint16_t plain_checksum(const std::byte* bytes, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i < count; i += 2) {
    sum += static_cast<uint32_t>(bytes[i]) << 8 | static_cast<uint32_t>(bytes[i + 1]);
  }
  while (sum > 0xFFFF) sum = (sum >> 16) + (sum & 0xFFFF);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

std::vector<NamedPath> sample_paths() {
  const Path ipv4 = base_path("198.51.100.1", "198.51.100.2");
  Path ipv6 = base_path("2001:db8::1", "2001:db8::2");
  ipv6.flow_label = 0xABCDE;
  return {{"IPv4", ipv4}, {"IPv4 VLAN", tagged(ipv4)}, {"IPv6", ipv6}, {"IPv6 VLAN", tagged(ipv6)}};
}

std::vector<Opcode> valid_opcodes() {
  std::vector<Opcode> opcodes;
  for (const OpcodeRow& row : kOpcodeRows) {
    if (row.valid) opcodes.push_back(row.opcode);
  }
  return opcodes;
}

Headers sample_headers(Opcode opcode, Random& random) {
  Headers h;
  h.bth.opcode = opcode;
  h.bth.solicited = random.chance(1, 2);
  h.bth.migration = random.chance(1, 2);
  h.bth.partition_key = static_cast<uint16_t>(bits(random, 16));
  h.bth.fecn = random.chance(1, 2);
  h.bth.becn = random.chance(1, 2);
  h.bth.destination = {bits(random, 24)};
  h.bth.ack_request = random.chance(1, 2);
  h.bth.psn = Psn(bits(random, 24));
  h.reth = {random.next(), {bits(random, 32)}, bits(random, 32)};
  h.atomic = {random.next(), {bits(random, 32)}, random.next(), random.next()};
  h.aeth = {static_cast<AethKind>(bits(random, 2)), static_cast<uint8_t>(bits(random, 5)), bits(random, 24)};
  h.atomic_original = random.next();
  h.deth = {bits(random, 32), {bits(random, 24)}};
  h.feth = {random.chance(1, 2), random.chance(1, 2), random.chance(1, 2)};
  h.immediate = bits(random, 32);
  h.invalidate = {bits(random, 32)};
  h.xrc_srq = bits(random, 24);
  return h;
}

Bytes sample_payload(size_t bytes, Random& random) {
  Bytes payload(bytes);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random.next());
  return payload;
}

std::vector<uint32_t> sample_payload_sizes(Opcode opcode) {
  switch (opcode_row(opcode).payload) {
    case PayloadRule::kNone:
      return {0};
    case PayloadRule::kEightBytes:
      return {8};
    case PayloadRule::kExactlyMtu:
      return {256, 512, 1024, 2048, 4096};
    case PayloadRule::kOneToMtu:
      return {1, 2, 3, 4, 63, 64, 65, 255, 1021, 1024, 4095, 4096};
    case PayloadRule::kZeroToMtu:
      return {0, 1, 2, 3, 4, 63, 64, 65, 255, 1021, 1024, 4095, 4096};
  }
  return {};
}

Bytes make_frame(const Path& path, const Headers& headers, std::span<const std::byte> payload) {
  const FrameTemplate frame_template(path);
  const auto payload_bytes = static_cast<uint32_t>(payload.size());
  const Opcode opcode = headers.bth.opcode;
  // Filled with something other than zero, so that a byte that was not written shows.
  Bytes frame(frame_bytes(frame_template, opcode, payload_bytes), std::byte{0xEE});
  std::byte* to = write_headers(frame, frame_template, headers, payload_bytes);
  std::ranges::copy(payload, to);
  const uint32_t written = finish_frame(frame, frame_template, opcode, payload_bytes);
  assert(written == frame.size());
  static_cast<void>(written);
  return frame;
}

Bytes make_sample(const Path& path, Opcode opcode, uint32_t payload_bytes, Random& random) {
  const Headers headers = sample_headers(opcode, random);
  return make_frame(path, headers, sample_payload(payload_bytes, random));
}

Bytes from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ') continue;
    if (high < 0) {
      high = digit(c);
    } else {
      bytes.push_back(static_cast<std::byte>(high << 4 | digit(c)));
      high = -1;
    }
  }
  return bytes;
}

size_t ip_offset(const Path& path) { return path.has_vlan ? 18 : 14; }
size_t udp_offset(const Path& path) { return ip_offset(path) + (path.source.is_ipv4() ? 20 : 40); }
size_t bth_offset(const Path& path) { return udp_offset(path) + 8; }

void repair_ipv4_checksum(Bytes& frame, const Path& path) {
  std::byte* ip = frame.data() + ip_offset(path);
  ip[10] = ip[11] = std::byte{0};
  const uint16_t checksum = plain_checksum(ip, 20);
  ip[10] = static_cast<std::byte>(checksum >> 8);
  ip[11] = static_cast<std::byte>(checksum);
}

void repair_icrc(Bytes& frame, const Path& path) {
  const std::span<const std::byte> covered(frame.data() + ip_offset(path),
                                           frame.size() - ip_offset(path) - 4);
  const uint32_t icrc = icrc_of(covered);
  std::memcpy(frame.data() + frame.size() - 4, &icrc, 4);
}

}  // namespace uroce::wire
