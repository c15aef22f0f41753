#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace uroce::nvmf {

// Structures of NVMe 1.4 as they lie in memory and in capsules: little-endian, which is what we are.
static_assert(std::endian::native == std::endian::little);

/// Scatter gather list descriptor (section 4.4), as it stands in a command's data pointer.
struct SglDescriptor {
  /// The high half of `type`.
  enum class Type : uint8_t {
    kDataBlock = 0,
    kBitBucket = 1,
    kSegment = 2,
    kLastSegment = 3,
    kKeyedDataBlock = 4,
    kTransportDataBlock = 5,
  };
  /// The low half of `type`.
  enum class SubType : uint8_t { kAddress = 0, kOffset = 1, kInvalidateKey = 0xF };

  uint64_t address;                 // or the offset in the capsule
  std::array<uint8_t, 7> specific;  // by type: see length() and key()
  uint8_t type_byte;

  [[nodiscard]] Type type() const { return static_cast<Type>(type_byte >> 4); }
  [[nodiscard]] SubType sub_type() const { return static_cast<SubType>(type_byte & 0xF); }
  /// The fields of a keyed data block: 24 bits of length, 32 bits of key.
  [[nodiscard]] uint32_t keyed_length() const {
    return specific[0] | uint32_t{specific[1]} << 8 | uint32_t{specific[2]} << 16;
  }
  [[nodiscard]] uint32_t key() const {
    return specific[3] | uint32_t{specific[4]} << 8 | uint32_t{specific[5]} << 16 |
           uint32_t{specific[6]} << 24;
  }
  /// The length of every other type.
  [[nodiscard]] uint32_t length() const { return keyed_length() | uint32_t{specific[3]} << 24; }
};
static_assert(sizeof(SglDescriptor) == 16);
static_assert(offsetof(SglDescriptor, type_byte) == 15);

/// Submission queue entry (section 4.2). Dwords 10 to 15 mean what the opcode says.
struct Command {
  uint8_t opcode;
  uint8_t flags;  // FUSE: bits 1:0; PSDT: bits 7:6
  uint16_t cid;
  uint32_t nsid;  // of Fabrics commands the first byte is FCTYPE
  uint32_t dword2;
  uint32_t dword3;
  uint64_t metadata;
  SglDescriptor sgl;
  uint32_t dword10;
  uint32_t dword11;
  uint32_t dword12;
  uint32_t dword13;
  uint32_t dword14;
  uint32_t dword15;

  enum class Fuse : uint8_t { kNone = 0, kFirst = 1, kSecond = 2, kReserved = 3 };
  [[nodiscard]] Fuse fuse() const { return static_cast<Fuse>(flags & 3); }
  /// PRP or SGL for data transfer: Fabrics has 1 only.
  [[nodiscard]] uint8_t psdt() const { return flags >> 6; }
};
static_assert(sizeof(Command) == 64);
static_assert(offsetof(Command, metadata) == 16);
static_assert(offsetof(Command, sgl) == 24);
static_assert(offsetof(Command, dword10) == 40);

/// Completion queue entry (section 4.6, and NVMe-oF 1.1, section 2.2.1).
struct Completion {
  uint64_t result;   // dwords 0 and 1
  uint16_t sq_head;  // reserved if the host needs no flow control
  uint16_t sq_id;    // reserved in Fabrics
  uint16_t cid;
  uint16_t status;  // no phase tag in Fabrics
};
static_assert(sizeof(Completion) == 16);
static_assert(offsetof(Completion, sq_head) == 8);
static_assert(offsetof(Completion, status) == 14);

/// The NSID that means all of them.
inline constexpr uint32_t kAllNamespaces = 0xFFFFFFFF;

/// One range of Dataset Management (section 6.7).
struct DatasetRange {
  uint32_t attributes;
  uint32_t blocks;
  uint64_t block;
};
static_assert(sizeof(DatasetRange) == 16);

}  // namespace uroce::nvmf
