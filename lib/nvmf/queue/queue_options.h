#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/values/time.h"
#include "nvmf/format/status.h"
#include "nvmf/format/transport_capabilities.h"

namespace uroce::nvmf {

struct QueueOptions {
  TransportCapabilities transport;
  std::optional<uint16_t> qid;  // that the transport was told when it connected: Connect must say the same
  uint32_t entries = 32;  // of the submission queue, as the transport was told: Connect may ask for fewer
  /// The time now, by the same clock as the time that calls get, for commands that begin and end in one turn.
  /// Null: the time of the call is used.
  Instant (*clock)() = nullptr;
  /// Where most of the data will lie, for drivers that register memory; outlive the queue.
  std::span<const std::span<std::byte>> buffers = {};
};

/// What became of the last Fabrics Connect, with the names that the host gave, whatever bytes they are.
struct ConnectOutcome {
  std::string host_nqn;
  std::string subsystem_nqn;
  bool discovery = false;  // of the discovery subsystem
  CommandStatus status{};
};

}  // namespace uroce::nvmf
