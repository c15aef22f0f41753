#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace uroce::nvmf {

/// Feature identifiers (NVMe 1.4, figure 271) that a controller has.
enum class Feature : uint8_t {
  kArbitration = 0x01,
  kPowerManagement = 0x02,
  kTemperatureThreshold = 0x04,
  kErrorRecovery = 0x05,
  kVolatileWriteCache = 0x06,
  kNumberOfQueues = 0x07,
  kWriteAtomicity = 0x0A,
  kAsyncEventConfiguration = 0x0B,
  kKeepAliveTimer = 0x0F,
  kHostIdentifier = 0x81,
};

/// A feature whose value is kept and handed out, and is not acted on.
struct KeptFeature {
  Feature feature;
  uint32_t changeable;  // bits; to set another one is an invalid field
  uint32_t initial;
};

inline constexpr std::array kKeptFeatures = {
    KeptFeature{Feature::kArbitration, 0xFFFF'FF07, 0x0000'0007},  // no limit of a burst
    KeptFeature{Feature::kPowerManagement, 0x0000'00E0, 0},        // there is one power state; workload hints
    KeptFeature{Feature::kErrorRecovery, 0x0000'FFFF, 0},
    KeptFeature{Feature::kWriteAtomicity, 0x0000'0001, 0},
};

/// The values of one controller's features. The thread of the admin queue.
class Features {
 public:
  Features() { reset(); }
  void reset();
  /// nullptr: not one that is only kept.
  [[nodiscard]] static const KeptFeature* kept(Feature feature);
  [[nodiscard]] uint32_t value(Feature feature) const { return values_[index(feature)]; }
  void set(Feature feature, uint32_t value) { values_[index(feature)] = value; }

  static constexpr uint16_t kNoOverThreshold = 0xFFFF, kNoUnderThreshold = 0;
  /// Composite temperature (Kelvin): over and under threshold.
  std::array<uint16_t, 2> temperature_thresholds{};
  uint32_t keep_alive_ms = 0;

 private:
  [[nodiscard]] static size_t index(Feature feature);
  std::array<uint32_t, kKeptFeatures.size()> values_{};
};

}  // namespace uroce::nvmf
