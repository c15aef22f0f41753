#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::fuzz {

/// How deep inputs came into what programs of one host share.
struct SharedDepth {
  uint64_t messages = 0;     // control messages that have the format
  uint64_t frames = 0;       // taken from another program's ring
  uint64_t reclaimed = 0;    // times that it gave frames back
  uint64_t broken = 0;       // channels that it broke
  uint64_t connections = 0;  // rows that count
  uint64_t records = 0;      // of captured frames

  void operator+=(const SharedDepth& other);
};

/// Takes the input for what another program of the host, or its service, writes: a control message, the
/// memory at the far end of a channel, rows of connections, a ring of captured frames. Throws
/// std::logic_error when something comes of it that must not:
/// - a message with texts that do not end, or that changes on its way through Message;
/// - a frame outside the far end's memory, or longer than one;
/// - a frame of ours that is given out twice, or lost;
/// - a connection of other numbers than the program's, or two with one id;
/// - more bytes of a captured frame than there is room for, or more records than the ring has slots.
/// What is read outside the memory is the sanitizer's to find.
SharedDepth check_shared(std::span<const std::byte> input);

}  // namespace uroce::fuzz
