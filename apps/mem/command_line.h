#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/mem/commands.h"
#include "base/values/result.h"

namespace uroce::memory_export {

/// The options of `uroce mem` and its commands.
class CommandLine {
 public:
  /// Adds them to `command`, which must outlive this.
  explicit CommandLine(CLI::App& command);

  /// After parsing: runs the command and returns its exit status. The error is a mistake of the user's.
  [[nodiscard]] Result<int> run() const;

 private:
  void add_serve();
  void add_transfer(CLI::App& command, const char* file);
  [[nodiscard]] Result<Transfer> transfer() const;

  CLI::App& list_;
  CLI::App& get_;
  CLI::App& put_;
  CLI::App& serve_;
  std::string server_;
  Transfer transfer_;
  uint64_t length_ = 0;
  std::string configuration_;
  uint16_t port_ = kDefaultPort;
};

}  // namespace uroce::memory_export
