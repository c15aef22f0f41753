#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "drivers/block/specification.h"
#include "nvmf/rdma/options.h"

namespace uroce::nvmf_target {

struct NamespaceConfiguration {
  uint32_t nsid = 0;
  drivers::BlockSpecification device;
  std::array<uint8_t, 16> uuid{};   // zeroes: derived
  std::array<uint8_t, 16> nguid{};  // zeroes: none
  uint32_t ana_group = 1;
  std::string where;  // "FILE:LINE: nvmf.subsystem.namespace", for complaints
};

struct SubsystemConfiguration {
  std::string nqn;
  std::string serial;
  std::string model;
  std::vector<std::string> hosts;
  bool allow_any_host = false;
  uint16_t io_queues_max = 128;
  std::vector<NamespaceConfiguration> namespaces;
  std::string where;
};

struct ListenConfiguration {
  std::string address;
  uint16_t port = 4420;
  std::string where;
};

/// The table [nvmf].
struct TargetConfiguration {
  nvmf::RdmaOptions transport;
  uint32_t statistics_s = 0;  // between two reports; 0: none
  std::vector<ListenConfiguration> listens;
  std::vector<SubsystemConfiguration> subsystems;
};

/// Reads [nvmf] of a TOML file, in which other tables belong to others. Of several errors the first in the
/// file is told, with file, line and key: unknown keys, wrong types, values out of range, names that are
/// there twice, what is missing.
Result<TargetConfiguration> read_target_configuration(const std::string& path);
Result<TargetConfiguration> parse_target_configuration(std::string_view text, const std::string& origin);

}  // namespace uroce::nvmf_target
