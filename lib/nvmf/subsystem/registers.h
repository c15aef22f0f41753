#pragma once

#include <cstdint>
#include <optional>

#include "nvmf/format/fabrics.h"

namespace uroce::nvmf {

/// The controller properties CAP, VS, CC and CSTS (NVMe 1.4, section 3.1; NVMe-oF 1.1, section 3.5) and what
/// follows from writing CC. Knows nothing of queues: it is told when they are gone.
class Registers {
 public:
  static constexpr uint32_t kVersion = 1u << 16 | 4u << 8;

  /// `io_entries_max`: of an I/O queue. A discovery controller has none, and does not look at entry sizes.
  Registers(uint32_t io_entries_max, bool discovery);

  /// nullopt: there is no such property, or not of this size.
  [[nodiscard]] std::optional<uint64_t> get(uint32_t offset, bool eight_bytes) const;

  enum class Change : uint8_t {
    kNone,
    kEnabled,
    kReset,     // I/O queues are to go; finish() is then due
    kShutdown,  // the same
    kRefused,   // in the middle of a reset
  };
  Change set_configuration(uint32_t configuration);
  /// No I/O queue is left: what was begun is complete.
  void finish();
  /// Beyond repair until the next reset.
  void fail() { status_ |= kFatal; }

  /// Commands other than Fabrics are taken.
  [[nodiscard]] bool ready() const {
    return (configuration_ & kEnable) != 0 && (status_ & (kReady | kFatal)) == kReady;
  }
  /// ready(), and not shut down.
  [[nodiscard]] bool running() const { return ready() && (status_ & kShutdownStatus) == 0; }
  [[nodiscard]] bool entry_sizes_valid() const;

 private:
  static constexpr uint32_t kEnable = 1;                 // CC.EN
  static constexpr uint32_t kShutdownNotice = 3u << 14;  // CC.SHN
  static constexpr uint32_t kReady = 1;                  // CSTS.RDY
  static constexpr uint32_t kFatal = 1u << 1;            // CSTS.CFS
  static constexpr uint32_t kShutdownStatus = 3u << 2;   // CSTS.SHST
  static constexpr uint32_t kShutdownOccurring = 1u << 2;
  static constexpr uint32_t kShutdownComplete = 2u << 2;

  uint64_t capabilities_;
  bool discovery_;
  uint32_t configuration_ = 0;
  uint32_t status_ = 0;
};

}  // namespace uroce::nvmf
