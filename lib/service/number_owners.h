#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/tables/number_block.h"
#include "base/values/identifiers.h"
#include "host/number_blocks.h"
#include "host/shared_device.h"

namespace uroce::service {

class ClientSession;

/// Which program has a queue pair number of a device now: its upper bits are an index into a table. Used in
/// turns of the device's poller 0 only.
class NumberOwners {
 public:
  NumberOwners() : slots_(host::NumberBlocks::kBlocks) {}

  /// Null: no program has the number.
  [[nodiscard]] ClientSession* of(QpNumber number) const {
    return slots_[(number.value & QpNumber::kMask) >> host::kBlockBits];
  }
  /// `program`: null when no program has the numbers any more.
  void set(NumberBlock block, ClientSession* program) {
    std::fill_n(slots_.begin() + (block.first >> host::kBlockBits), block.count >> host::kBlockBits, program);
  }

 private:
  std::vector<ClientSession*> slots_;
};

}  // namespace uroce::service
