#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace uroce::launch {

inline constexpr size_t kHelpColumns = 80;

/// Groups of options of the configuration. They come last, and all but the first with --help-all only.
inline constexpr const char* kConfigurationGroup = "Devices and configuration (--help-all: every key)";
inline constexpr const char* kDeviceKeys = "Keys of a device (each --port or --interface begins one)";
inline constexpr const char* kOtherKeys = "Keys of the configuration";

/// What --help says, in lines of kHelpColumns at most: what the command does, how it is called, its own
/// options, the configuration, examples. The first line of a command's description is what a list of commands
/// has.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  [[nodiscard]] std::string ordered_groups(const CLI::App* app, CLI::AppFormatMode mode) const;
};

/// What --help calls the value of an option: "N", "FILE", "auto, xdp or packet".
std::string value_name(const CLI::Option& option);

}  // namespace uroce::launch
