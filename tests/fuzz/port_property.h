#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::fuzz {

/// How much of what a port can receive was reached.
struct PortDepth {
  std::array<uint64_t, 6> classified{};  // by net::FrameKind
  uint64_t hits = 0;                     // frames that the flow cache recognized
  uint64_t answered = 0;                 // ARP and neighbour discovery
  uint64_t echoes = 0;
  uint64_t queries = 0;  // about multicast groups that were understood
  uint64_t reports = 0;  // of groups
  uint64_t learned = 0;  // neighbours that only a peer's bytes made known

  void operator+=(const PortDepth& other);
};

/// Takes the input for a sequence of frames that come to a port, most of them nearly right, and for what the
/// device's owner does meanwhile. Throws std::logic_error when something comes of it that must not:
/// - a frame that hits the flow cache is judged otherwise than one that misses it;
/// - a frame is answered more than once, to another Ethernet address than its own, or with something
/// malformed;
/// - a frame makes us ask a question, or changes a configured neighbour;
/// - questions, or reports of multicast groups, leave faster than at their rate;
/// - a report is malformed.
PortDepth check_port(std::span<const std::byte> input);

}  // namespace uroce::fuzz
