#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "apps/stat/reading.h"
#include "apps/stat/report_table.h"

namespace uroce::statistics {

/// `uroce stat`: what processes with a stack count.
class StatCommand {
 public:
  explicit StatCommand(CLI::App& command);
  /// After the command line was parsed: 0, or 1 after one line on standard error.
  int execute();

 private:
  int show(const Reading& reading, const Reading* earlier) const;
  int watch();

  Selection selection_;
  TableOptions options_;
  bool json_ = false;
  CLI::Option* watch_ = nullptr;
  double every_s_ = 1;
};

/// `uroce qp`: queue pairs of all processes.
class QueuePairCommand {
 public:
  explicit QueuePairCommand(CLI::App& command);
  int execute();

 private:
  CLI::App& show_;
  CLI::App& list_;
  Selection selection_;
  std::string number_;
  bool json_ = false;
};

}  // namespace uroce::statistics
