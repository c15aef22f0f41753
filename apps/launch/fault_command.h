#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <string>

namespace uroce::launch {

/// `uroce fault add | list | clear | break`, part of the program's command line.
class FaultCommand {
 public:
  explicit FaultCommand(CLI::App& command);

  /// What was chosen: the exit status.
  int execute() const;

 private:
  struct Option {
    const char* key;  // of the rule
    std::string value;
  };

  int add() const;
  int break_at_once() const;

  CLI::App& app_;
  CLI::App& add_;
  CLI::App& list_;
  CLI::App& clear_;
  CLI::App& break_;
  std::string socket_;
  std::array<Option, 15> options_;
  std::array<Option, 4> broken_{{{"qp", ""}, {"device", ""}, {"client", ""}, {"key", ""}}};
  bool overflow_ = false;
  bool json_ = false;
  uint32_t id_ = 0;
  uint32_t client_ = 0;  // whose faults are listed or ended; 0: those of the service
};

}  // namespace uroce::launch
