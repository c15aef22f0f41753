#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "block/block.h"

namespace uroce::testing {

/// What a test says of a device, and sees of it; outlives the device, which a target owns. Not for several
/// threads, but for the counts of queues.
struct DeviceScript {
  // Before the device is made.
  uint32_t block_bytes = 512;
  uint64_t blocks = 256;
  bool in_memory = false;  // memory() shows the bytes
  bool volatile_cache = true;
  bool read_only = false;
  bool log = true;  // what was submitted

  // Any time.
  bool hold = false;                    // requests do not end
  uint32_t refusals = 0;                // that many submissions are refused
  std::deque<block::Outcome> outcomes;  // of the next requests; kDone when there is none
  bool refuse_queues = false;

  struct Seen {
    block::Operation operation = block::Operation::kRead;
    bool force_unit_access = false;
    uint64_t block = 0;
    uint32_t blocks = 0;
  };
  std::vector<Seen> seen;
  std::vector<std::byte> bytes;
  uint32_t queues = 0;  // that are open
  bool destroyed = false;

  [[nodiscard]] size_t count(block::Operation operation) const;
};

/// A device in memory that does what its script says.
std::unique_ptr<block::Device> make_scripted_device(std::shared_ptr<DeviceScript> script);

}  // namespace uroce::testing
