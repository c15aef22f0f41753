#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::fuzz {

/// How deep datagrams to queue pair 1 came.
struct ServicesDepth {
  uint64_t received = 0;
  uint64_t dropped = 0;
  uint64_t sent = 0;
  uint64_t events = 0;
  uint64_t established = 0;

  void operator+=(const ServicesDepth& other);
};

/// Takes the input for datagrams that hosts of a link send to queue pair 1, and for what the user of the
/// general services does. Throws std::logic_error when something comes of it that must not:
/// - a datagram makes us ask the link for a neighbour, or makes a neighbour known;
/// - something is sent to an Ethernet address that is neither the neighbour's nor the one where the datagram
///   came from, or is no datagram of the communication manager;
/// - more is sent than a few messages for each datagram;
/// - connections outlive their requests for ever.
ServicesDepth check_services(std::span<const std::byte> input);

}  // namespace uroce::fuzz
