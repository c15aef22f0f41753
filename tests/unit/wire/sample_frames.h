#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "wire/frame.h"
#include "wire/packet.h"

// Valid frames of every kind, for tests that look at them or break them.
namespace uroce::wire {

using Bytes = std::vector<std::byte>;

struct NamedPath {
  std::string name;
  Path path;
};

/// IPv4 and IPv6, each with and without a VLAN tag; every field distinct and not zero.
std::vector<NamedPath> sample_paths();

/// Every opcode that the table calls valid.
std::vector<Opcode> valid_opcodes();

/// Random values, within their bit widths, in every field of every header; the same for the same generator
/// state.
Headers sample_headers(Opcode opcode, Random& random);

Bytes sample_payload(size_t bytes, Random& random);

/// Payload sizes that the opcode may carry: pads of 0 to 3 bytes, path MTUs and their neighbours.
std::vector<uint32_t> sample_payload_sizes(Opcode opcode);

/// A complete frame, exactly as long as its contents.
Bytes make_frame(const Path& path, const Headers& headers, std::span<const std::byte> payload);

/// A frame of `opcode` with random headers and payload.
Bytes make_sample(const Path& path, Opcode opcode, uint32_t payload_bytes, Random& random);

/// "450000..." to bytes; spaces are skipped.
Bytes from_hex(std::string_view hex);

/// Where the IP header begins, and the header behind it.
size_t ip_offset(const Path& path);
size_t udp_offset(const Path& path);
size_t bth_offset(const Path& path);

/// Recomputes what a deliberate change of the frame made wrong: the IPv4 header checksum, the ICRC.
void repair_ipv4_checksum(Bytes& frame, const Path& path);
void repair_icrc(Bytes& frame, const Path& path);

}  // namespace uroce::wire
