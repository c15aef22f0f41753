#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"

namespace uroce::launch {

/// The configuration on a command line: --config, every key of it as an option, and the options of a device
/// in groups: each --port or --interface begins one.
class ConfigurationOptions {
 public:
  /// Adds the options to `command`, which must outlive this.
  explicit ConfigurationOptions(CLI::App& command);

  /// After parsing: anything of it was given.
  [[nodiscard]] bool given() const;

  /// After parsing: of --config; empty without it.
  [[nodiscard]] std::string file() const;

  /// After parsing: the file (or what the environment says), and the options over it. The devices of a
  /// command line with --port or --interface replace those of the file; without, device options change the
  /// file's only device. Errors name the option or the file and its line.
  [[nodiscard]] Result<engine::Configuration> merged() const;

 private:
  struct KeyOption {
    CLI::Option* option;
    std::string path;  // of the configuration's key
  };
  struct Setting {
    std::string option;  // as the user wrote it: "--mtu"
    std::string path;
    std::string value;
  };

  void add_key(CLI::App& command, const engine::KeyDescription& key);
  [[nodiscard]] std::vector<Setting> settings() const;
  [[nodiscard]] Result<engine::Configuration> base() const;

  CLI::App& command_;
  CLI::Option* file_;
  std::vector<KeyOption> keys_;
};

/// What this process and the programs that it becomes find in their environment from now on: programs of the
/// verbs have their configuration from there.
void publish(const engine::Configuration& configuration);

}  // namespace uroce::launch
