#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "wire/packet.h"

namespace uroce::replay {

using Bytes = std::vector<std::byte>;

/// A frame with what it says.
struct Packet {
  size_t number = 0;  // in the file, from 1, as capture tools count
  Instant time;       // since the file's first frame
  Bytes bytes;
  wire::Packet parsed;  // points into `bytes`

  [[nodiscard]] Psn psn() const { return parsed.headers.bth.psn; }
  [[nodiscard]] bool response() const { return parsed.row->response; }
  [[nodiscard]] bool has_aeth() const { return parsed.row->headers.has(wire::Header::kAeth); }
  [[nodiscard]] const wire::Aeth& aeth() const { return parsed.headers.aeth; }
};

/// Parses a frame; without any `bytes` when it is not RoCE. Throws std::runtime_error when its ICRC is
/// wrong.
Packet make_packet(Bytes bytes);

/// The same packet on the same way with other headers and another payload, as our stack writes it.
Packet rewritten(const Packet& packet, const wire::Headers& headers, std::span<const std::byte> payload);

struct Station {
  Gid address;
  MacAddress mac;
  QpNumber number;
};

/// Everything that a capture shows of one RC connection, in the captured order.
struct Conversation {
  std::string capture;  // name of the file, without its ending
  std::array<Station, 2> ends;
  std::vector<Packet> packets;
  uint32_t mtu = 0;

  /// Which of the ends sent it.
  [[nodiscard]] size_t sender(const Packet& packet) const {
    return packet.parsed.source == ends[0].address ? 0 : 1;
  }
};

/// The two ends as the captures' README names them; the client has the lower MAC.
constexpr std::array<const char*, 2> kEndNames = {"client", "server"};

/// The RC connections of a file. Which ends talk to each other follows from the addresses and the QP numbers
/// that the packets are sent to; which two numbers are one connection, from PSNs that answers have in common
/// with requests. Throws std::runtime_error when that leaves something over.
std::vector<Conversation> conversations_of(const std::filesystem::path& file);

}  // namespace uroce::replay
