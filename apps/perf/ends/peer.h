#pragma once

#include <cstdint>

#include "apps/perf/ends/endpoint.h"
#include "apps/perf/ends/responder.h"
#include "apps/perf/ends/round.h"

namespace uroce::perf {

/// The other end as the initiator sees it: in this process, or behind a TCP connection. Every failure, of
/// this end or told by the other, throws.
class Peer {
 public:
  virtual ~Peer() = default;

  /// The other end has a fresh queue pair, connected to `initiator`; returns its address.
  virtual Address meet(const Round& round, const Address& initiator) = 0;
  /// The other end's memory is ready for the phase.
  virtual void begin(const Phase& phase) = 0;
  /// Called over and over while the initiator waits. Hot.
  virtual void turn() = 0;
  /// All messages up to number `end` completed at the initiator: the other end has had them too, unless they
  /// were lost, and its memory was checked.
  virtual Outcome finish(uint64_t end) = 0;
};

}  // namespace uroce::perf
