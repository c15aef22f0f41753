#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "apps/decode/capture_file.h"
#include "apps/decode/connections.h"
#include "apps/decode/inspection.h"

namespace uroce::decode {

/// What a capture has, as a whole.
struct Totals {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t roce = 0;
  uint64_t other = 0;
  uint64_t malformed = 0;
  uint64_t cut = 0;        // of RoCEv2, too little of them was captured
  uint64_t truncated = 0;  // of RoCEv2, only their first bytes were captured
  uint64_t lost = 0;       // frames that the capture says it lacks
  std::array<uint64_t, kRuleCount> by_rule{};
  [[nodiscard]] uint64_t findings() const {
    uint64_t sum = 0;
    for (const uint64_t one : by_rule) sum += one;
    return sum;
  }
};

struct DecodeOptions {
  Lines lines = Lines::kYes;
  int threads = 0;  // 0: as many as there are CPUs
  /// Called for each frame in the order of the file, by one thread at a time; `note` says how the packet
  /// came. False ends it.
  std::function<bool(const Inspected& packet, const std::string& note)> on_frame;
};

/// Reads a capture to its end: parsing and ICRCs on all CPUs, connections in order.
Totals decode(CaptureFile& file, const DecodeOptions& options, Connections& connections);

}  // namespace uroce::decode
