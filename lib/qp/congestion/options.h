#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "qp/congestion/algorithms.h"

namespace uroce::qp {

/// Names a parameter of kCongestionParameters by its key. A key that no row has does not compile.
struct ParameterName {
  consteval ParameterName(const char* key) : position(position_of(key)) {}  // NOLINT: stands for the key

  size_t position;

 private:
  static consteval size_t position_of(std::string_view key) {
    for (size_t i = 0; i < kCongestionParameters.size(); ++i)
      if (kCongestionParameters[i].key == key) return i;
    throw "no row of kCongestionAlgorithms has this parameter";
  }
};

/// A value for each parameter of kCongestionParameters.
class CongestionParameters {
 public:
  struct Setting {
    ParameterName name;
    uint32_t value;
  };

  constexpr CongestionParameters() {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = kCongestionParameters[i].initial;
  }
  constexpr CongestionParameters(std::initializer_list<Setting> settings) : CongestionParameters() {
    for (const Setting& setting : settings) values_[setting.name.position] = setting.value;
  }

  constexpr uint32_t operator[](ParameterName name) const { return values_[name.position]; }
  // By their places in kCongestionParameters.
  [[nodiscard]] constexpr uint32_t at(size_t position) const { return values_.at(position); }
  constexpr void set(size_t position, uint32_t value) { values_.at(position) = value; }

  [[nodiscard]] bool operator==(const CongestionParameters&) const = default;

 private:
  std::array<uint32_t, kCongestionParameterCount> values_{};
};

struct CongestionOptions {
  CongestionControl control = CongestionControl::kNone;
  uint32_t cnp_interval_us = 50;  // N: between two CNPs of a queue pair; 0: it sends none
  uint8_t cnp_dscp = 48;
  CongestionParameters parameters = {};

  [[nodiscard]] bool operator==(const CongestionOptions&) const = default;
};

/// What congestion control makes of one queue pair, now.
struct CongestionState {
  CongestionControl control = CongestionControl::kNone;
  uint32_t window = 0;  // packets that may be unanswered; 0: of a service without answers
  double mbps = 0;      // 0: no rate limits it
  uint64_t cnps = 0;    // that came
  // Round trips; 0: none was measured.
  int64_t smoothed_ns = 0;
  int64_t least_ns = 0;
};

}  // namespace uroce::qp
