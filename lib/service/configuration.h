#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"

namespace uroce::service {

/// What programs and users may have at most.
struct Quotas {
  uint32_t programs = 1024;
  uint32_t programs_per_user = 256;
  uint32_t numbers_per_program = 1u << 16;  // of queue pairs
  uint32_t numbers_per_user = 1u << 21;     // of each device: an eighth of those that there are
  uint32_t ports_per_program = 8192;        // of rdma_cm
  uint32_t ports_per_user = 16'384;
  uint32_t groups_per_program = 256;
  uint32_t groups_per_user = 1024;  // memberships of all of a user's programs
  std::optional<uint32_t>
      memory_mb_per_user;  // MiB of the service's memory; none: an eighth of the machine's
  std::optional<uint32_t> descriptors_per_user;  // of the service; none: an eighth of its limit
};

/// The table [service] of a configuration file.
struct ServiceConfiguration {
  std::string socket;                       // path; empty: the default
  uint32_t mode = 0600;                     // of the socket
  std::optional<std::vector<uid_t>> users;  // that may attach beside the superuser and the service's own;
                                            // none: all that can connect
  std::optional<uint32_t> idle_exit_s;      // the service ends when no program was attached for so long
  std::string nvmf;  // the file of an NVMe-oF target that runs beside the service; empty: there is none
  uint32_t memory_connections_per_client = 64;  // of the memory server that runs beside the service
  Quotas quotas;
  bool has_devices = false;  // the file has a table [[device]]
};

/// Reads [service] of a TOML file, in which other tables belong to others. Of several errors the first in the
/// file is told, with file, line and key.
Result<ServiceConfiguration> read_service_configuration(const std::string& path);
Result<ServiceConfiguration> parse_service_configuration(std::string_view text, const std::string& origin);

}  // namespace uroce::service
