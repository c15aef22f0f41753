#pragma once

#include <cstddef>
#include <cstdint>

#include "nvmf/format/fabrics.h"

namespace uroce::nvmf {

/// Which structure Identify asks for (NVMe 1.4, figure 244).
enum class IdentifyCode : uint8_t {
  kNamespace = 0x00,
  kController = 0x01,
  kActiveNamespaces = 0x02,
  kNamespaceDescriptors = 0x03,
};
inline constexpr uint32_t kIdentifyBytes = 4096;

/// Figure 247.
struct IdentifyController {
  uint16_t vendor;
  uint16_t subsystem_vendor;
  char serial[20];
  char model[40];
  char firmware[8];
  uint8_t arbitration_burst;
  uint8_t ieee_oui[3];
  uint8_t cmic;
  uint8_t mdts;
  uint16_t controller_id;
  uint32_t version;
  uint32_t rtd3_resume;
  uint32_t rtd3_entry;
  uint32_t oaes;
  uint32_t ctratt;
  uint8_t reserved100[11];
  uint8_t controller_type;
  uint8_t reserved112[144];
  uint16_t oacs;
  uint8_t abort_limit;        // from 0
  uint8_t async_event_limit;  // from 0
  uint8_t firmware_updates;
  uint8_t log_page_attributes;
  uint8_t error_log_entries;  // from 0
  uint8_t power_states;       // from 0
  uint8_t reserved264[2];
  uint16_t warning_temperature;
  uint16_t critical_temperature;
  uint8_t reserved270[50];
  uint16_t keep_alive_granularity;  // 100 ms
  uint8_t reserved322[20];
  uint8_t ana_transition_s;
  uint8_t ana_capabilities;
  uint32_t ana_group_max;
  uint32_t ana_groups;
  uint8_t reserved352[160];
  uint8_t sq_entry_size;
  uint8_t cq_entry_size;
  uint16_t commands_max;
  uint32_t namespaces;  // NN: the largest NSID
  uint16_t oncs;
  uint16_t fuses;
  uint8_t format_attributes;
  uint8_t volatile_write_cache;
  uint16_t atomic_write_unit;        // from 0
  uint16_t atomic_write_power_fail;  // from 0
  uint8_t vendor_commands;
  uint8_t write_protection;
  uint16_t atomic_compare_write_unit;  // from 0
  uint16_t reserved534;
  uint32_t sgls;
  uint32_t namespaces_max;  // MNAN
  uint8_t reserved544[224];
  char nqn[kNqnField];
  uint8_t reserved1024[768];
  uint32_t command_capsule_16_bytes;
  uint32_t response_capsule_16_bytes;
  uint16_t in_capsule_offset;
  uint8_t controller_attributes;
  uint8_t sgl_descriptors_max;
  uint16_t optional_fabrics_commands;
  uint8_t reserved1806[242];
  uint8_t power_state_descriptors[32][32];
  uint8_t vendor_specific[1024];
};
static_assert(sizeof(IdentifyController) == kIdentifyBytes);
static_assert(offsetof(IdentifyController, cmic) == 76);
static_assert(offsetof(IdentifyController, oaes) == 92);
static_assert(offsetof(IdentifyController, controller_type) == 111);
static_assert(offsetof(IdentifyController, oacs) == 256);
static_assert(offsetof(IdentifyController, warning_temperature) == 266);
static_assert(offsetof(IdentifyController, keep_alive_granularity) == 320);
static_assert(offsetof(IdentifyController, ana_transition_s) == 342);
static_assert(offsetof(IdentifyController, sq_entry_size) == 512);
static_assert(offsetof(IdentifyController, oncs) == 520);
static_assert(offsetof(IdentifyController, atomic_compare_write_unit) == 532);
static_assert(offsetof(IdentifyController, sgls) == 536);
static_assert(offsetof(IdentifyController, nqn) == 768);
static_assert(offsetof(IdentifyController, command_capsule_16_bytes) == 1792);
static_assert(offsetof(IdentifyController, optional_fabrics_commands) == 1804);
static_assert(offsetof(IdentifyController, power_state_descriptors) == 2048);

struct LbaFormat {
  uint16_t metadata_bytes;
  uint8_t data_bytes_log2;
  uint8_t relative_performance;
};

/// Figure 245.
struct IdentifyNamespace {
  uint64_t size;
  uint64_t capacity;
  uint64_t utilization;
  uint8_t features;
  uint8_t formats;  // from 0
  uint8_t format;
  uint8_t metadata_capabilities;
  uint8_t protection_capabilities;
  uint8_t protection;
  uint8_t sharing;
  uint8_t reservations;
  uint8_t format_progress;
  uint8_t deallocate_features;
  uint8_t reserved34[58];
  uint32_t ana_group;
  uint8_t reserved96[3];
  uint8_t attributes;
  uint8_t reserved100[4];
  uint8_t nguid[16];
  uint8_t eui64[8];
  LbaFormat lba_formats[16];
  uint8_t reserved192[3904];
};
static_assert(sizeof(IdentifyNamespace) == kIdentifyBytes);
static_assert(offsetof(IdentifyNamespace, sharing) == 30);
static_assert(offsetof(IdentifyNamespace, deallocate_features) == 33);
static_assert(offsetof(IdentifyNamespace, ana_group) == 92);
static_assert(offsetof(IdentifyNamespace, attributes) == 99);
static_assert(offsetof(IdentifyNamespace, nguid) == 104);
static_assert(offsetof(IdentifyNamespace, lba_formats) == 128);

/// Head of a namespace identification descriptor (figure 246): `bytes` of name follow.
struct NamespaceDescriptor {
  uint8_t type;
  uint8_t bytes;
  uint16_t reserved;
};
static_assert(sizeof(NamespaceDescriptor) == 4);
enum class NamespaceName : uint8_t { kEui64 = 1, kNguid = 2, kUuid = 3 };

}  // namespace uroce::nvmf
