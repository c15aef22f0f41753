#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {

/// What traffic a command line asks for. Lives as long as `app`.
class TrafficOptions {
 public:
  explicit TrafficOptions(CLI::App& app);
  /// After the command line was parsed. Throws Failure.
  [[nodiscard]] Traffic traffic() const;

 private:
  Traffic traffic_;
  std::string operation_ = "write";
  uint64_t region_mb_ = 512;
};

}  // namespace uroce::perf
