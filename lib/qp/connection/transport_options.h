#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>

#include "base/tables/number_block.h"
#include "mem/rights/grace_period.h"
#include "qp/attributes/attributes.h"
#include "qp/congestion/options.h"
#include "queue/shared_receive_queue.h"
#include "wire/frame.h"

namespace uroce::qp {

/// The P_Key that everybody has. Bit 15 of a P_Key is the membership, the others are the partition.
inline constexpr uint16_t kDefaultPartition[] = {0xFFFF};

/// What all queue pairs of a device have in common: made once, before the first of them, and not changed.
struct TransportOptions {
  NumberBlock numbers = {};             // of this process
  uint32_t pollers = mem::kReadersMax;  // of the device, at most
  ReadLimits reads{.sent = 128, .answered = 16};
  bool credits = true;           // peers are told how many receives there are
  bool tail_probes = false;      // also before anything was lost (recovery/loss_recovery.h)
  bool selective_repeat = true;  // else go-back-N, at both ends of a connection
  bool mig_req = true;           // MigReq of RC, UC and XRC: Migrated, the state of a path without migration
  std::span<const uint16_t> partition_keys = kDefaultPartition;  // not owned: the port's table
  wire::SourcePorts source_ports = wire::SourcePorts::kFlowLabel;
  CongestionOptions congestion = {};
  const queue::SharedReceiveTable* xrc_receives = nullptr;  // not owned; of XRC targets (xrc_target.h)
  std::pmr::memory_resource* memory = nullptr;  // not owned; of queue pairs that are used. nullptr: the pool
};
inline constexpr TransportOptions kDefaultTransport;

}  // namespace uroce::qp
