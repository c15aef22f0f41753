#pragma once

#include <cstdint>
#include <vector>

#include "base/threads/idle_limits.h"
#include "base/values/time.h"
#include "nvmf/rdma/events.h"

namespace uroce::nvmf {

/// How the RDMA transport is laid out. Memory and entries are for each poller and device.
struct RdmaOptions {
  Instant (*clock)() = nullptr;         // monotonic; any thread
  std::vector<uint32_t> cores;          // a poller thread on each; empty: one, on any core
  uint32_t in_capsule_bytes = 4096;     // of data with a command; 0 to 8192, a multiple of 16
  uint32_t data_bytes_max = 128 << 10;  // of one command: 4096 times a power of two
  uint32_t io_entries_max = 128;        // of an I/O queue
  uint16_t qid_max = 1024;
  bool shared_receives = true;  // a shared receive queue, when the device has them
  uint32_t shared_receive_entries = 4096;
  uint32_t small_buffers = 1024;  // of kSmallBufferBytes
  uint32_t large_buffers = 128;   // of data_bytes_max
  uint32_t queues_max = 1024;     // connections, of all pollers
  uint32_t queues_per_host = 0;   // connections of one address; 0: half of queues_max
  /// Connections before Fabrics Connect, and those of discovery controllers (see RdmaAdmission).
  uint32_t pending_max = 0;  // of all hosts that are not known; 0: a quarter of queues_max
  uint32_t pending_per_host = 16;
  uint32_t connect_s = 5;  // from the host's request to Fabrics Connect
  /// The host acknowledges a response, or answers a READ, within this time: otherwise the queue ends. The
  /// retries and timeouts that the host asked for do not matter.
  uint32_t stall_s = 10;
  /// Without anything to do before a poller sleeps.
  uint32_t idle_us = IdleLimits::kServedIdle.ns / microseconds(1).ns;
  bool own_threads = true;  // of the pollers; false: they are turned by RdmaTransport::turn()
  /// A line of what happens to connections. Null: none. Control thread.
  RdmaEvents::Log log;

  static constexpr uint32_t kSmallBufferBytes = 8192;
  static constexpr uint32_t kInCapsuleBytesMax = 8192;
  static constexpr uint32_t kAdminEntriesMax = 128;
};

}  // namespace uroce::nvmf
