#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "net/membership_message.h"
#include "wire/big_endian.h"

// What a querier does, for tests: its messages, byte for byte as Linux's bridge sends them, and how it reads
// ours. Nothing of the code under test is used.
namespace uroce::testing {

using Frame = std::vector<std::byte>;

inline Frame bytes_of(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  Frame bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return bytes;
}

// Of a bridge with the MAC 02:00:00:00:00:01 (Linux 6.18), about 239.1.2.3 and ff0e::1:2. Answers within 1 s
// (general) and 0.2 or 1 s (specific).
inline constexpr std::string_view kIgmpV2General =
    "01005e000001020000000001080046c00020000040000102041700000000e000000194040000110aeef500000000";
inline constexpr std::string_view kIgmpV2Specific =
    "01005e000001020000000001080046c00020000040000102041700000000e000000194040000110afdf0ef010203";
inline constexpr std::string_view kIgmpV3Specific =
    "01005e010203020000000001080046c00024000040000102f30f00000000ef01020394040000110afb73ef010203027d0000";
inline constexpr std::string_view kMldV1General =
    "33330000000102000000000186dd6000000000200001fe80000000000000000000fffe000001ff02000000000000000000000000"
    "00013a0005020000000082007d3f03e8000000000000000000000000000000000000";
inline constexpr std::string_view kMldV1Specific =
    "33330000000102000000000186dd6000000000200001fe80000000000000000000fffe000001ff02000000000000000000000000"
    "00013a0005020000000082007e2d03e80000ff0e0000000000000000000000010002";
inline constexpr std::string_view kMldV2Specific =
    "33330001000202000000000186dd6000000000240001fe80000000000000000000fffe000001ff0e000000000000000000000001"
    "00023a0005020000000082007b9e03e80000ff0e0000000000000000000000010002027d0000";

/// The sum that Internet checksums complement, of big-endian words.
inline uint32_t sum_of(std::span<const std::byte> bytes, uint32_t sum = 0) {
  for (size_t i = 0; i < bytes.size(); ++i)
    sum += std::to_integer<uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

/// Where the message of an untagged frame begins that has the IP headers of these protocols.
inline size_t message_at(const Frame& frame) { return 14 + (frame[14] == std::byte{0x46} ? 24 : 48); }

/// Makes the checksums of such a frame right after a change.
inline void set_checksums(Frame& frame) {
  const size_t at = message_at(frame);
  const auto set = [&](size_t where, uint32_t sum) {
    wire::store_be16(frame.data() + where, static_cast<uint16_t>(~sum));
  };
  const std::span<std::byte> message = std::span(frame).subspan(at);
  wire::store_be16(frame.data() + at + 2, 0);
  if (at == 14 + 24) {
    wire::store_be16(frame.data() + 24, 0);
    set(24, sum_of(std::span(frame).subspan(14, 24)));
    return set(at + 2, sum_of(message));
  }
  const uint32_t pseudo =
      sum_of(std::span(frame).subspan(14 + 8, 32), static_cast<uint32_t>(message.size()) + 58);
  set(at + 2, sum_of(message, pseudo));
}

/// The frame with the length that it has now in its IP header, and right checksums.
inline Frame finished(Frame frame) {
  if (message_at(frame) == 14 + 24)
    wire::store_be16(frame.data() + 16, static_cast<uint16_t>(frame.size() - 14));
  else
    wire::store_be16(frame.data() + 18, static_cast<uint16_t>(frame.size() - 14 - 40));
  set_checksums(frame);
  return frame;
}

/// A general query of IGMPv3 or MLDv2: the specific one without its group.
inline Frame general_query(bool ipv4, uint16_t max_response_code) {
  Frame frame = bytes_of(ipv4 ? kIgmpV3Specific : kMldV2Specific);
  const size_t at = message_at(frame);
  if (ipv4) {
    frame[at + 1] = static_cast<std::byte>(max_response_code);
    std::memset(frame.data() + at + 4, 0, 4);
    const uint8_t all[] = {224, 0, 0, 1};
    std::memcpy(frame.data() + 30, all, 4);
    const uint8_t mac[] = {1, 0, 0x5E, 0, 0, 1};
    std::memcpy(frame.data(), mac, 6);
  } else {
    wire::store_be16(frame.data() + at + 4, max_response_code);
    std::memset(frame.data() + at + 8, 0, 16);
    std::memset(frame.data() + 38, 0, 16);
    frame[38] = std::byte{0xFF};
    frame[39] = std::byte{2};
    frame[53] = std::byte{1};
    const uint8_t mac[] = {0x33, 0x33, 0, 0, 0, 1};
    std::memcpy(frame.data(), mac, 6);
  }
  return finished(frame);
}

/// What a report says: (type of the message, (type of the record or 0, group) for each group).
struct ReadReport {
  uint8_t type = 0;
  std::vector<std::pair<uint8_t, Gid>> groups = {};
};

/// Nullopt: no report, or its headers, lengths or checksums are wrong.
inline std::optional<ReadReport> read_report(const Frame& frame) {
  if (frame.size() < 14 + 24 + 8) return std::nullopt;
  const bool ipv4 = frame[12] == std::byte{8} && frame[13] == std::byte{0};
  const size_t at = message_at(frame);
  if (frame.size() < at + 8 || ipv4 != (at == 14 + 24) || finished(frame) != frame) return std::nullopt;
  if (frame[ipv4 ? 22 : 21] != std::byte{1}) return std::nullopt;  // hops
  const size_t address = ipv4 ? 4 : 16;
  const auto group = [&](size_t where) {
    Gid gid = ipv4 ? Gid::from_ipv4({}) : Gid{};
    std::memcpy(gid.bytes.data() + 16 - address, frame.data() + where, address);
    return gid;
  };
  ReadReport report{.type = std::to_integer<uint8_t>(frame[at])};
  if (report.type != 0x22 && report.type != 143) {
    if (frame.size() != at + (ipv4 ? 8 : 24)) return std::nullopt;
    report.groups.emplace_back(0, group(at + (ipv4 ? 4 : 8)));
    return report;
  }
  const size_t records = wire::load_be16(frame.data() + at + 6);
  if (frame.size() != at + 8 + records * (4 + address)) return std::nullopt;
  for (size_t i = 0; i < records; ++i) {
    const size_t record = at + 8 + i * (4 + address);
    report.groups.emplace_back(std::to_integer<uint8_t>(frame[record]), group(record + 4));
  }
  return report;
}

}  // namespace uroce::testing
