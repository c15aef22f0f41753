#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace uroce::litmus {

/// One message as the sending thread is to place it: `length` bytes in packets of `packet` bytes, then, as a
/// message of its own, the eight bytes of the flag.
struct Message {
  std::byte* to;
  const std::byte* from;
  size_t length;
  size_t packet;
  std::byte* flag;
  const std::byte* flag_from;
};

inline constexpr size_t kFlagBytes = 8;

using Send = std::function<void(const Message&)>;

struct Sightings {
  uint64_t messages = 0;
  uint64_t early_last_byte = 0;  // the last byte was seen and some other byte was not there yet
  uint64_t early_flag = 0;       // the flag was seen and some byte of the message before it was not there yet
  double seconds = 0;

  [[nodiscard]] uint64_t violations() const { return early_last_byte + early_flag; }
};

struct Run {
  uint64_t messages_max = 0;
  uint64_t violations_max = UINT64_MAX;  // enough: stop there
  uint64_t seed = 0;
};

/// The processors that the two threads would run on; false when there are no two.
bool two_processors(int& sender, int& watcher);

/// Sends messages of 64 B to 64 KiB (all lengths, offsets and packets of 1024 or 4096 bytes, by the seed) one
/// after the other from one thread, while another, on another core, spins on the last byte of one message and
/// on the flag after the next, and then at once looks at all bytes of the message.
Sightings watch(const Send& send, const Run& run);

}  // namespace uroce::litmus
