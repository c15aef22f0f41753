// Decision: `uroce run` passes the merged configuration as TOML in the environment, and executes the program.
// No file is left behind, and exit status and signals are the program's own.
#include "apps/launch/configuration_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>

#include "apps/launch/help_text.h"

namespace uroce::launch {
namespace {

/// Keys that have a shorter name on the command line than "--table-key".
struct ShortName {
  std::string_view path;
  std::string_view option;
};
constexpr std::array<ShortName, 4> kShortNames{{{"device.addresses", "--ip"},
                                                {"device.neighbours", "--neighbour"},
                                                {"poller.mode", "--poller"},
                                                {"faults.rules", "--fault"}}};

constexpr std::string_view kDevice = "device.";
constexpr std::string_view kRules = "faults.rules";

/// What begins a device.
bool begins_device(std::string_view path) { return path == "device.port" || path == "device.interface"; }

std::string option_name(std::string_view path) {
  for (const ShortName& name : kShortNames) {
    if (name.path == path) return std::string(name.option);
  }
  if (path.starts_with(kDevice)) path.remove_prefix(kDevice.size());
  std::string name = "--" + std::string(path);
  std::ranges::replace(name, '.', '-');
  std::ranges::replace(name, '_', '-');
  return name;
}

constexpr std::string_view kOrigin = "command line";

/// "command line:4: device.addresses: ..." names a line of a text that the options were made into. The user
/// wrote "--ip".
std::string in_words_of_the_user(std::string_view message) {
  constexpr std::string_view kDigits = "0123456789";
  std::string_view rest = message;
  if (!rest.starts_with(kOrigin)) return std::string(message);
  rest.remove_prefix(kOrigin.size());
  if (rest.starts_with(':')) rest.remove_prefix(std::min(rest.find_first_not_of(kDigits, 1), rest.size()));
  if (rest.starts_with(": ")) rest.remove_prefix(2);
  const std::string_view path = rest.substr(0, rest.find(": "));
  const auto keys = engine::configuration_keys();
  const bool known = std::ranges::any_of(keys, [&](const auto& key) { return key.path == path; });
  return known ? option_name(path) + std::string(rest.substr(path.size())) : std::string(rest);
}

}  // namespace

ConfigurationOptions::ConfigurationOptions(CLI::App& command) : command_(command) {
  command.set_help_all_flag("--help-all", "Also every key of the configuration");
  file_ = command.add_option("--config")->description("TOML file with the configuration")->type_name("FILE");
  file_->group(kConfigurationGroup);
  for (const engine::KeyDescription& key : engine::configuration_keys()) add_key(command, key);
}

void ConfigurationOptions::add_key(CLI::App& command, const engine::KeyDescription& key) {
  CLI::Option* option = command.add_option(option_name(key.path));
  option->description(std::string(key.help))->type_name(std::string(key.type))->expected(1);
  const bool of_a_device = key.path.starts_with(kDevice);
  const bool is_usual = begins_device(key.path) || key.path == "device.addresses";
  option->group(is_usual ? kConfigurationGroup : of_a_device ? kDeviceKeys : kOtherKeys);
  if (of_a_device || key.path == kRules) option->take_all();
  keys_.push_back({option, std::string(key.path)});
}

bool ConfigurationOptions::given() const {
  return file_->count() != 0 ||
         std::ranges::any_of(keys_, [](const KeyOption& key) { return key.option->count() != 0; });
}

std::string ConfigurationOptions::file() const {
  return file_->count() != 0 ? file_->as<std::string>() : std::string();
}

// In the order of the command line, which decides what belongs to which --port or --interface.
std::vector<ConfigurationOptions::Setting> ConfigurationOptions::settings() const {
  std::vector<Setting> settings;
  std::map<const CLI::Option*, size_t> taken;
  for (const CLI::Option* option : command_.parse_order()) {
    const auto key = std::ranges::find(keys_, option, &KeyOption::option);
    if (key == keys_.end()) continue;
    const std::vector<std::string>& values = option->results();
    const size_t turn = taken[option]++;
    if (turn < values.size()) settings.push_back({option->get_name(), key->path, values[turn]});
  }
  return settings;
}

Result<engine::Configuration> ConfigurationOptions::base() const {
  if (file_->count() == 0) return engine::configuration_from_environment();
  return engine::read_configuration(file_->as<std::string>());
}

Result<engine::Configuration> ConfigurationOptions::merged() const {
  Result<engine::Configuration> configuration = base();
  if (!configuration) return configuration;
  const std::vector<Setting> all = settings();
  if (std::ranges::any_of(all, begins_device, &Setting::path)) configuration->devices.clear();

  std::optional<size_t> device;              // of the last --port or --interface
  std::map<std::string, std::string> lists;  // several --ip of a device are one list
  for (const Setting& setting : all) {
    std::string path = setting.path;
    std::string value = setting.value;
    if (path.starts_with(kDevice)) {
      if (begins_device(path)) device = device ? *device + 1 : 0;
      if (!device && configuration->devices.size() != 1) {
        return Error{
            EINVAL,
            fmt::format("{} {}: give the --port of its device before it (the configuration has {} devices)",
                        setting.option, value, configuration->devices.size())};
      }
      path = fmt::format("device.{}.{}", device.value_or(0), path.substr(kDevice.size()));
      if (setting.option == "--ip" || setting.option == "--neighbour") {
        std::string& list = lists[path];
        list += (list.empty() ? "" : ",") + value;
        value = list;
      }
    }
    if (path == kRules) {
      std::string& list = lists[path];
      list += (list.empty() ? "" : ";") + value;
      value = list;
    }
    Result<engine::Configuration> next = engine::apply_override(std::move(*configuration), path, value);
    if (!next)
      return Error{next.error().code,
                   fmt::format("{} {}: {}", setting.option, setting.value, next.error().message)};
    configuration = std::move(next);
  }
  // What a single key cannot see: two devices with one name or port.
  Result<engine::Configuration> whole = engine::parse_configuration(engine::to_toml(*configuration), kOrigin);
  if (!whole) return Error{whole.error().code, in_words_of_the_user(whole.error().message)};
  return whole;
}

void publish(const engine::Configuration& configuration) {
  setenv("UROCE_CONFIG_TEXT", engine::to_toml(configuration).c_str(), 1);
  unsetenv("UROCE_CONFIG");
}

}  // namespace uroce::launch
