#pragma once

#include <cstdint>

#include "nvmf/format/identify.h"
#include "nvmf/format/log_page.h"

namespace uroce::nvmf_host {

// Commands as a host forms them. Fields that are not named are zero; PSDT says SGL.

namespace command {

enum Opcode : uint8_t {
  kFlush = 0x00,
  kWrite = 0x01,
  kRead = 0x02,
  kCompare = 0x05,
  kWriteZeroes = 0x08,
  kDatasetManagement = 0x09,
  kVerify = 0x0C,

  kGetLogPage = 0x02,
  kIdentify = 0x06,
  kAbort = 0x08,
  kSetFeatures = 0x09,
  kGetFeatures = 0x0A,
  kAsyncEventRequest = 0x0C,
  kKeepAlive = 0x18,
};

inline nvmf::Command make(uint8_t opcode, uint32_t nsid = 0) {
  nvmf::Command made{};
  made.opcode = opcode;
  made.flags = 1u << 6;
  made.nsid = nsid;
  return made;
}

inline nvmf::Command fabrics(nvmf::FabricsType type) {
  nvmf::Command made{};
  made.opcode = nvmf::kFabricsOpcode;
  made.nsid = static_cast<uint32_t>(type);
  return made;
}

inline nvmf::Command connect(uint16_t qid, uint16_t sq_size, uint32_t kato_ms = 0, uint8_t attributes = 0) {
  nvmf::Command made = fabrics(nvmf::FabricsType::kConnect);
  made.dword10 = uint32_t{qid} << 16;
  made.dword11 = sq_size | uint32_t{attributes} << 16;
  made.dword12 = kato_ms;
  return made;
}

inline nvmf::Command get_property(nvmf::Property property, bool eight_bytes = false) {
  nvmf::Command made = fabrics(nvmf::FabricsType::kPropertyGet);
  made.dword10 = eight_bytes ? 1 : 0;
  made.dword11 = static_cast<uint32_t>(property);
  return made;
}

inline nvmf::Command set_property(nvmf::Property property, uint32_t value) {
  nvmf::Command made = fabrics(nvmf::FabricsType::kPropertySet);
  made.dword11 = static_cast<uint32_t>(property);
  made.dword12 = value;
  return made;
}

/// `blocks` from 1.
inline nvmf::Command blocks(uint8_t opcode, uint32_t nsid, uint64_t block, uint32_t blocks) {
  nvmf::Command made = make(opcode, nsid);
  made.dword10 = static_cast<uint32_t>(block);
  made.dword11 = static_cast<uint32_t>(block >> 32);
  made.dword12 = blocks - 1;
  return made;
}
inline constexpr uint32_t kForceUnitAccess = 1u << 30;

inline nvmf::Command fused(nvmf::Command of, nvmf::Command::Fuse half) {
  of.flags |= static_cast<uint8_t>(half);
  return of;
}

inline nvmf::Command identify(nvmf::IdentifyCode code, uint32_t nsid = 0) {
  nvmf::Command made = make(kIdentify, nsid);
  made.dword10 = static_cast<uint32_t>(code);
  return made;
}

/// `bytes` is a multiple of 4.
inline nvmf::Command get_log_page(nvmf::LogPage page, uint32_t bytes, uint64_t offset = 0,
                                  bool retain = false) {
  nvmf::Command made = make(kGetLogPage, nvmf::kAllNamespaces);
  const uint32_t dwords = bytes / 4 - 1;
  made.dword10 = static_cast<uint32_t>(page) | (retain ? 1u << 15 : 0) | (dwords & 0xFFFF) << 16;
  made.dword11 = dwords >> 16;
  made.dword12 = static_cast<uint32_t>(offset);
  made.dword13 = static_cast<uint32_t>(offset >> 32);
  return made;
}

inline nvmf::Command get_features(uint8_t feature, uint32_t dword11 = 0, uint8_t select = 0) {
  nvmf::Command made = make(kGetFeatures);
  made.dword10 = feature | uint32_t{select} << 8;
  made.dword11 = dword11;
  return made;
}

inline nvmf::Command set_features(uint8_t feature, uint32_t dword11) {
  nvmf::Command made = make(kSetFeatures);
  made.dword10 = feature;
  made.dword11 = dword11;
  return made;
}

}  // namespace command

}  // namespace uroce::nvmf_host
