#pragma once

#include <cstdint>
#include <optional>

#include "apps/decode/inspected.h"
#include "base/values/sequence_number.h"

namespace uroce::decode {

/// Adds what the payload breaks by the path MTU. If that is not known (0), a First or Middle packet says it.
void check_payload(const Inspected& packet, uint32_t& mtu, Findings& findings);

/// Adds what a request breaks that has the PSN behind that of `before`.
void check_order(wire::Opcode before, const Inspected& packet, Findings& findings);

/// Counts the bytes of a message that is written, from its First packet to its Last.
class WrittenMessage {
 public:
  /// `in_order`: the packet has the PSN behind the one before.
  void receive(const Inspected& packet, bool in_order, Findings& findings);

 private:
  bool whole_ = false;  // it began, and no packet of it is missing
  uint64_t bytes_ = 0;
  uint32_t announced_ = 0;
};

constexpr bool begins(wire::Position position) { return (static_cast<uint8_t>(position) & 1) != 0; }
constexpr bool ends(wire::Position position) { return (static_cast<uint8_t>(position) & 2) != 0; }

}  // namespace uroce::decode
