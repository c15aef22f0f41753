#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce::wire {

/// A management datagram (MAD) is one UD SEND of exactly so many bytes to QP 1.
inline constexpr size_t kMadBytes = 256;
inline constexpr size_t kMadHeaderBytes = 24;
inline constexpr size_t kMadDataBytes = kMadBytes - kMadHeaderBytes;

/// The Q_Key of QP 1 (ib_mad.h of Linux).
inline constexpr uint32_t kGsiQkey = 0x8001'0000;

/// What all MADs begin with (lib/README.md, wire fact 10).
struct MadHeader {
  uint8_t base_version = 1;
  uint8_t management_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction_id = 0;
  uint16_t attribute = 0;
  uint32_t modifier = 0;
};

/// Null when there are not kMadBytes.
std::optional<MadHeader> parse_mad_header(std::span<const std::byte> mad);
/// Writes kMadHeaderBytes.
void write_mad_header(std::byte* to, const MadHeader& header);

}  // namespace uroce::wire
