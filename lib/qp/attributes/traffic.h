#pragma once

#include <cstdint>

namespace uroce::qp {

/// Messages of one direction that are complete, and the bytes of their data, since the queue pair was made.
/// Counted on cache lines that the end of a message writes to in any case.
struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;

  void add(uint64_t length) {
    ++messages;
    bytes += length;
  }
  void add(const Traffic& more) {
    messages += more.messages;
    bytes += more.bytes;
  }
};

/// What went wrong, since the queue pair was made.
struct Incidents {
  uint32_t retransmitted = 0;  // packets
  uint32_t timeouts = 0;
  uint32_t naks_received = 0;
  uint32_t rnr_naks_received = 0;
  uint32_t naks_sent = 0;
  uint32_t rnr_naks_sent = 0;
};

}  // namespace uroce::qp
