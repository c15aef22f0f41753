#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::nvmf {

/// Log pages (NVMe 1.4, section 5.14; NVMe-oF 1.1, section 5.3).
enum class LogPage : uint8_t {
  kError = 0x01,
  kSmart = 0x02,
  kFirmwareSlot = 0x03,
  kChangedNamespaces = 0x04,
  kCommandEffects = 0x05,
  kAna = 0x0C,
  kDiscovery = 0x70,
};

struct ErrorLogEntry {
  uint64_t count;  // 1 is the first error of the controller; 0: no entry
  uint16_t sq_id;
  uint16_t cid;
  uint16_t status;     // as in the completion
  uint16_t parameter;  // bits 7:0 the byte, 10:8 the bit of the command; 0xFFFF: no certain one
  uint64_t lba;
  uint32_t nsid;
  uint8_t vendor_page;
  uint8_t transport;
  uint8_t reserved30[2];
  uint64_t command_specific;
  uint16_t transport_specific;
  uint8_t reserved42[22];
};
static_assert(sizeof(ErrorLogEntry) == 64);
static_assert(offsetof(ErrorLogEntry, lba) == 16);
static_assert(offsetof(ErrorLogEntry, transport) == 29);

/// The numbers of 128 bits.
struct Uint128 {
  uint64_t low;
  uint64_t high;
};

struct SmartLog {
  uint8_t critical_warning;
  uint8_t temperature[2];
  uint8_t spare_percent;
  uint8_t spare_threshold_percent;
  uint8_t used_percent;
  uint8_t reserved6[26];
  Uint128 data_units_read;  // 1000 times 512 bytes, rounded up
  Uint128 data_units_written;
  Uint128 host_reads;
  Uint128 host_writes;
  Uint128 busy_minutes;
  Uint128 power_cycles;
  Uint128 power_on_hours;
  Uint128 unsafe_shutdowns;
  Uint128 media_errors;
  Uint128 error_log_entries;
  uint8_t reserved192[320];
};
static_assert(sizeof(SmartLog) == 512);
static_assert(offsetof(SmartLog, data_units_read) == 32);
static_assert(offsetof(SmartLog, error_log_entries) == 176);

struct FirmwareSlotLog {
  uint8_t active;
  uint8_t reserved1[7];
  char revisions[7][8];
  uint8_t reserved64[448];
};
static_assert(sizeof(FirmwareSlotLog) == 512);

inline constexpr uint32_t kChangedNamespacesMax = 1024;

/// What a command does to others, one dword for each opcode of an admin queue and each of an I/O queue.
struct CommandEffectsLog {
  uint32_t admin[256];
  uint32_t io[256];
  uint8_t reserved2048[2048];
};
static_assert(sizeof(CommandEffectsLog) == 4096);
inline constexpr uint32_t kEffectSupported = 1u << 0;
inline constexpr uint32_t kEffectBlockContents = 1u << 1;

struct AnaLogHeader {
  uint64_t change_count;
  uint16_t groups;
  uint8_t reserved10[6];
};
static_assert(sizeof(AnaLogHeader) == 16);

/// Its NSIDs follow.
struct AnaGroupDescriptor {
  uint32_t group;
  uint32_t namespaces;
  uint64_t change_count;
  uint8_t state;
  uint8_t reserved17[15];
};
static_assert(sizeof(AnaGroupDescriptor) == 32);

}  // namespace uroce::nvmf
