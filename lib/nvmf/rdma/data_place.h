#pragma once

#include <cstdint>
#include <variant>

#include "nvmf/queue/request.h"

namespace uroce::nvmf {

/// Where a command's SGL says that its data is.
struct RdmaDataPlace {
  enum class Kind : uint8_t { kNone, kCapsule, kHostMemory };
  Kind kind = Kind::kNone;
  bool invalidate = false;  // the host wants its key to be invalid with the completion
  uint32_t key = 0;         // kHostMemory
  uint64_t address = 0;     // there, or the offset in the capsule's data
};

/// Checks the SGL of a command that moves data (NVMe-oF 1.1, section 7.3.4). `capsule_bytes`: of data that
/// came with the command.
std::variant<RdmaDataPlace, CommandStatus> find_data(const Request& request, uint32_t capsule_bytes);

}  // namespace uroce::nvmf
