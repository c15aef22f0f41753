#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nvmf/format/nvme.h"

namespace uroce::nvmf {

// Structures of NVMe over Fabrics 1.1.

inline constexpr std::string_view kDiscoveryNqn = "nqn.2014-08.org.nvmexpress.discovery";
/// An NQN's bytes without the NUL that ends it, and with it and what fills the field.
inline constexpr size_t kNqnBytesMax = 223;
inline constexpr size_t kNqnField = 256;

inline constexpr uint8_t kFabricsOpcode = 0x7F;
enum class FabricsType : uint8_t {
  kPropertySet = 0x00,
  kConnect = 0x01,
  kPropertyGet = 0x04,
  kDisconnect = 0x08
};
inline uint8_t fabrics_type(const Command& command) { return static_cast<uint8_t>(command.nsid); }

/// Connect (section 3.3). All Fabrics commands are seen through accessors of a Command's dwords.
struct ConnectFields {
  uint16_t record_format;
  uint16_t qid;
  uint16_t sq_size;  // entries, 0 is one
  uint8_t attributes;
  uint32_t kato_ms;
  static constexpr uint8_t kPriority = 3;  // among queues: there is no such arbitration
  static constexpr uint8_t kDisableFlowControl = 1u << 2;
  static constexpr uint16_t kRecordFormatAt = 40, kQidAt = 42, kSqSizeAt = 44, kAttributesAt = 46;

  explicit ConnectFields(const Command& command)
      : record_format(static_cast<uint16_t>(command.dword10)),
        qid(static_cast<uint16_t>(command.dword10 >> 16)),
        sq_size(static_cast<uint16_t>(command.dword11)),
        attributes(static_cast<uint8_t>(command.dword11 >> 16)),
        kato_ms(command.dword12) {}
};

/// What Connect brings from the host.
struct ConnectData {
  uint8_t host_id[16];
  uint16_t controller_id;
  uint8_t reserved18[238];
  char subsystem_nqn[kNqnField];
  char host_nqn[kNqnField];
  uint8_t reserved768[256];
};
static_assert(sizeof(ConnectData) == 1024);
static_assert(offsetof(ConnectData, subsystem_nqn) == 256);
static_assert(offsetof(ConnectData, host_nqn) == 512);
inline constexpr uint16_t kDynamicController = 0xFFFF;

/// The result of a Connect with kConnectInvalidParameters: which field it was (figure 20).
constexpr uint32_t invalid_in_command(uint16_t offset) { return offset; }
constexpr uint32_t invalid_in_data(size_t offset) { return 1u << 16 | static_cast<uint32_t>(offset); }

/// Property Get and Set (sections 3.5, 3.6): offsets of the properties there are.
enum class Property : uint32_t {
  kCapabilities = 0x00,
  kVersion = 0x08,
  kConfiguration = 0x14,
  kStatus = 0x1C
};

/// Discovery log page (section 5.3).
struct DiscoveryLogHeader {
  uint64_t generation;
  uint64_t records;
  uint16_t record_format;
  uint8_t reserved18[1006];
};
static_assert(sizeof(DiscoveryLogHeader) == 1024);

struct DiscoveryLogEntry {
  uint8_t transport;
  uint8_t address_family;
  uint8_t subsystem_type;
  uint8_t transport_requirements;
  uint16_t port_id;
  uint16_t controller_id;
  uint16_t admin_entries_max;
  uint8_t reserved10[22];
  char service[32];
  uint8_t reserved64[192];
  char subsystem_nqn[kNqnField];
  char address[256];
  uint8_t transport_specific[256];
};
static_assert(sizeof(DiscoveryLogEntry) == 1024);
static_assert(offsetof(DiscoveryLogEntry, service) == 32);
static_assert(offsetof(DiscoveryLogEntry, subsystem_nqn) == 256);
static_assert(offsetof(DiscoveryLogEntry, transport_specific) == 768);

}  // namespace uroce::nvmf
