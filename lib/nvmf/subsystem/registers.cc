#include "nvmf/subsystem/registers.h"

namespace uroce::nvmf {

namespace {

constexpr uint32_t bits(uint32_t value, uint32_t low, uint32_t count) {
  return value >> low & ((1u << count) - 1);
}

constexpr uint64_t capabilities_of(uint32_t io_entries_max) {
  constexpr uint64_t kContiguous = 1u << 16;         // CQR: the only kind a fabric has
  constexpr uint64_t kTimeout = uint64_t{30} << 24;  // TO: 15 s
  constexpr uint64_t kNvmCommandSet = uint64_t{1} << 37;
  return (io_entries_max - 1) | kContiguous | kTimeout | kNvmCommandSet;
}

/// NVM command set, pages of 4 KiB, round robin: the only values that CAP allows.
constexpr bool valid(uint32_t configuration) {
  return bits(configuration, 4, 3) == 0 && bits(configuration, 7, 4) == 0 && bits(configuration, 11, 3) == 0;
}

}  // namespace

Registers::Registers(uint32_t io_entries_max, bool discovery)
    : capabilities_(capabilities_of(io_entries_max)), discovery_(discovery) {}

std::optional<uint64_t> Registers::get(uint32_t offset, bool eight_bytes) const {
  if (eight_bytes) {
    if (offset != static_cast<uint32_t>(Property::kCapabilities)) return std::nullopt;
    return capabilities_;
  }
  switch (static_cast<Property>(offset)) {
    case Property::kVersion:
      return kVersion;
    case Property::kConfiguration:
      return configuration_;
    case Property::kStatus:
      return status_;
    default:
      return std::nullopt;
  }
}

bool Registers::entry_sizes_valid() const {
  constexpr uint32_t kSqEntryLog2 = 6, kCqEntryLog2 = 4;
  return bits(configuration_, 16, 4) == kSqEntryLog2 && bits(configuration_, 20, 4) == kCqEntryLog2;
}

Registers::Change Registers::set_configuration(uint32_t configuration) {
  const bool was_enabled = (configuration_ & kEnable) != 0;
  const bool enable = (configuration & kEnable) != 0;
  // A reset ends when RDY has turned 0; to enable before is against section 3.1.5.
  if (!was_enabled && enable && (status_ & kReady) != 0) return Change::kRefused;
  const bool was_notified = (configuration_ & kShutdownNotice) != 0;
  configuration_ = configuration;
  if (was_enabled && !enable) {
    status_ &= ~(kFatal | kShutdownStatus);
    return Change::kReset;
  }
  if ((configuration & kShutdownNotice) != 0 && !was_notified) {
    status_ = (status_ & ~kShutdownStatus) | kShutdownOccurring;
    return Change::kShutdown;
  }
  if (was_enabled || !enable) return Change::kNone;
  if (!valid(configuration) || (!discovery_ && !entry_sizes_valid())) {
    fail();
    return Change::kNone;
  }
  status_ |= kReady;
  return Change::kEnabled;
}

void Registers::finish() {
  if ((configuration_ & kEnable) == 0) status_ &= ~kReady;
  if ((status_ & kShutdownStatus) == kShutdownOccurring)
    status_ = (status_ & ~kShutdownStatus) | kShutdownComplete;
}

}  // namespace uroce::nvmf
