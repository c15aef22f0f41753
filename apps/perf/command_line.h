#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/perf/benchmark.h"
#include "base/result.h"

namespace uroce::perf {

/// The options of `uroce perf` apart from the configuration's.
class CommandLine {
 public:
  static const char* const kExamples;

  /// Adds the options to `command`, which must outlive this.
  explicit CommandLine(CLI::App& command);

  /// After parsing. Errors name the option.
  [[nodiscard]] Result<Options> options() const;

 private:
  void add_measuring(CLI::App& command);
  void add_places(CLI::App& command);

  Options options_;
  std::string service_ = "rc";
  std::string operations_;
  std::string sizes_;
  std::string measures_ = "bandwidth,latency";
  uint64_t iterations_ = 0;
  uint32_t path_mtu_ = 0;
  uint32_t gid_index_ = 0;
  CLI::Option* gid_index_option_ = nullptr;
};

}  // namespace uroce::perf
