#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace uroce::wire {

/// Transport service: bits 7:5 of the BTH opcode.
enum class Service : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

/// Operation: bits 4:0 of the BTH opcode.
enum class Operation : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0A,
  kWriteOnlyImm = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseMiddle = 0x0E,
  kReadResponseLast = 0x0F,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kFlush = 0x1C,
  kAtomicWrite = 0x1D,
};

/// The BTH opcode byte.
struct Opcode {
  uint8_t value = 0;

  [[nodiscard]] static constexpr Opcode make(Service service, Operation operation) {
    return {static_cast<uint8_t>(static_cast<uint8_t>(service) << 5 | static_cast<uint8_t>(operation))};
  }
  [[nodiscard]] constexpr Service service() const { return static_cast<Service>(value >> 5); }
  [[nodiscard]] constexpr Operation operation() const { return static_cast<Operation>(value & 0x1F); }
  [[nodiscard]] constexpr bool operator==(const Opcode&) const = default;
};

/// 0x81: the only opcode of the CNP prefix that is used (lib/README.md, wire fact 2).
inline constexpr Opcode kCnpOpcode{0x81};

/// Extension headers, in the order in which they follow the BTH when present.
enum class Header : uint8_t {
  kXrcEth,
  kDeth,
  kFeth,
  kReth,
  kAtomicEth,
  kAeth,
  kAtomicAckEth,
  kImmediate,
  kInvalidate,
  kCnpPadding,
};
inline constexpr size_t kHeaderKinds = 10;

inline constexpr std::array<uint8_t, kHeaderKinds> kHeaderBytes = {4, 8, 4, 16, 28, 4, 8, 4, 4, 16};

constexpr uint32_t header_bytes(Header header) { return kHeaderBytes[static_cast<size_t>(header)]; }

class HeaderSet {
 public:
  constexpr HeaderSet() = default;
  template <typename... H>
  static constexpr HeaderSet of(H... headers) {
    HeaderSet set;
    ((set.bits_ = static_cast<uint16_t>(set.bits_ | 1u << static_cast<unsigned>(headers))), ...);
    return set;
  }
  [[nodiscard]] constexpr bool has(Header header) const {
    return (bits_ >> static_cast<unsigned>(header) & 1u) != 0;
  }
  [[nodiscard]] constexpr bool has_any(HeaderSet other) const { return (bits_ & other.bits_) != 0; }
  [[nodiscard]] constexpr HeaderSet with(Header header) const {
    HeaderSet set = *this;
    set.bits_ = static_cast<uint16_t>(set.bits_ | 1u << static_cast<unsigned>(header));
    return set;
  }
  /// Bytes of all headers in the set.
  [[nodiscard]] constexpr uint32_t bytes() const {
    uint32_t sum = 0;
    for (size_t i = 0; i < kHeaderKinds; ++i) {
      if (has(static_cast<Header>(i))) sum += header_bytes(static_cast<Header>(i));
    }
    return sum;
  }
  /// One bit per Header, lowest first on the wire.
  [[nodiscard]] constexpr uint32_t bits() const { return bits_; }
  [[nodiscard]] constexpr bool operator==(const HeaderSet&) const = default;

 private:
  uint16_t bits_ = 0;
};

/// Where a packet stands in its message: bit 0 says that it begins one, bit 1 that it ends one.
enum class Position : uint8_t { kMiddle = 0, kFirst = 1, kLast = 2, kOnly = kFirst | kLast };

/// What a packet is about; SEND of every kind is one family.
enum class Family : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kAtomic,
  kFlush,
  kAtomicWrite,
  kReadResponse,
  kAck,
  kCnp
};

/// What payload an opcode may carry, given the path MTU.
enum class PayloadRule : uint8_t { kNone, kExactlyMtu, kOneToMtu, kZeroToMtu, kEightBytes };

/// Service and direction of a packet as one number, below 16.
constexpr uint8_t traffic_of(Service service, bool response) {
  return static_cast<uint8_t>(static_cast<uint32_t>(service) << 1 | uint32_t{response});
}

/// One row of the opcode table. `valid` is false for opcodes that no service defines.
struct OpcodeRow {
  std::string_view name;  // "RC WRITE First"
  HeaderSet headers;
  uint16_t header_bytes = 0;  // BTH and all extension headers
  Opcode opcode;
  Family family = Family::kSend;
  Position position = Position::kOnly;
  PayloadRule payload = PayloadRule::kNone;
  bool valid = false;
  bool response = false;          // travels from responder to requester
  bool consumes_receive = false;  // every SEND, and the packets of a WRITE that carry an immediate
  bool whole = false;             // a SEND or WRITE in one packet, without immediate or key to invalidate
  uint8_t traffic = 0;            // traffic_of() its service and `response`
  // Bytes of payload at any path MTU: the fewest, and how many more there may be.
  uint8_t payload_bytes_min = 0;
  uint16_t payload_bytes_range = 0;

  [[nodiscard]] constexpr bool admits(size_t payload_bytes) const {
    return payload_bytes - payload_bytes_min <= payload_bytes_range;
  }
};

inline constexpr uint32_t kBthBytes = 12;
inline constexpr uint32_t kIcrcBytes = 4;
inline constexpr uint32_t kPayloadBytesMax = 4096;  // the largest path MTU
/// BTH and extension headers of the longest opcode (XRC atomics).
inline constexpr uint32_t kTransportHeaderBytesMax = kBthBytes + 4 + 28;

/// The row of every byte value, made at compile time; read it through opcode_row().
extern const std::array<OpcodeRow, 256> kOpcodeRows;

/// The row of any byte value; rows of undefined opcodes have `valid == false`.
inline const OpcodeRow& opcode_row(Opcode opcode) { return kOpcodeRows[opcode.value]; }

}  // namespace uroce::wire
