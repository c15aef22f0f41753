#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::nvmf {

/// What the SMART log counts.
enum class IoCounter : uint8_t {
  kReads,         // commands
  kWrites,        // commands
  kReadUnits,     // of 512 bytes
  kWrittenUnits,  // of 512 bytes
  kMediaErrors,
  kCount
};
inline constexpr size_t kIoCounters = static_cast<size_t>(IoCounter::kCount);
using IoTotals = std::array<uint64_t, kIoCounters>;

/// One queue's: written by its thread, read (possibly a little late) by any.
class alignas(64) IoCounters {
 public:
  void add(IoCounter counter, uint64_t n = 1) {
    uint64_t& value = values_[static_cast<size_t>(counter)];
    // A plain load and a relaxed store: there is one writer; readers only need a whole value.
    __atomic_store_n(&value, value + n, __ATOMIC_RELAXED);
  }
  void add_to(IoTotals& totals) const {
    for (size_t i = 0; i < kIoCounters; ++i) totals[i] += __atomic_load_n(&values_[i], __ATOMIC_RELAXED);
  }

 private:
  IoTotals values_{};
};

}  // namespace uroce::nvmf
