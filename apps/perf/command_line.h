#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/perf/benchmark.h"
#include "base/values/result.h"

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
  void add_load(CLI::App& command);
  void add_places(CLI::App& command);
  [[nodiscard]] Status choose_loads(Options& options) const;
  [[nodiscard]] Status apply_to(Load& load) const;

  Options options_;
  std::string service_ = "rc";
  std::string operations_;
  std::string sizes_;
  std::string measures_ = "bandwidth,latency";
  uint64_t iterations_ = 0;
  uint32_t path_mtu_ = 0;
  uint32_t gid_index_ = 0;
  CLI::Option* gid_index_option_ = nullptr;

  // A load. What is not given is the profile's, or the default.
  std::string profile_;
  std::string rate_;
  std::string spacing_;
  std::string servers_;
  Load load_;
  CLI::Option* queue_pairs_option_ = nullptr;
  CLI::Option* threads_option_ = nullptr;
  CLI::Option* warm_up_option_ = nullptr;
  CLI::Option* duration_option_ = nullptr;
  CLI::Option* depth_option_ = nullptr;
  CLI::Option* slots_option_ = nullptr;
  CLI::Option* receive_list_option_ = nullptr;
  CLI::Option* iterations_option_ = nullptr;
};

}  // namespace uroce::perf
