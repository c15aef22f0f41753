#include "engine/configuration/congestion_keys.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace uroce::engine {

using namespace configuration;

namespace {

using qp::CongestionControl;
using qp::CongestionOptions;
using qp::kCongestionParameters;

constexpr auto kControls = [] {
  std::array<std::pair<std::string_view, CongestionControl>, qp::kCongestionAlgorithmCount> controls;
  for (size_t i = 0; i < controls.size(); ++i)
    controls[i] = {qp::kCongestionNames[i], static_cast<CongestionControl>(i)};
  return controls;
}();

using Node = const toml::node&;

template <size_t position>
Complaint store_parameter(Node value, KeyTarget to) {
  constexpr const qp::NamedParameter& kParameter = kCongestionParameters[position];
  uint32_t number = 0;
  Complaint complaint = store_integer(value, number, kParameter.least, kParameter.most);
  if (!complaint) to.configuration.congestion.parameters.set(position, number);
  return complaint;
}

using Store = Complaint (*)(Node, KeyTarget);
constexpr auto kStores = []<size_t... positions>(std::index_sequence<positions...>) {
  return std::array<Store, sizeof...(positions)>{store_parameter<positions>...};
}(std::make_index_sequence<kCongestionParameters.size()>());

/// What the table of algorithms says, in the words of keys.
struct Texts {
  struct Parameter {
    std::string path;
    std::string help;
  };
  std::string choices;  // "none, dcqcn or swift"
  std::string choices_help = "what slows a queue pair down";
  std::array<Parameter, kCongestionParameters.size()> parameters;

  Texts() {
    for (size_t i = 0; i < kControls.size(); ++i) {
      choices += fmt::format("{}{}",
                             i == 0                     ? ""
                             : i + 1 < kControls.size() ? ", "
                                                        : " or ",
                             kControls[i].first);
      choices_help +=
          fmt::format("{} {}: {}", i == 0 ? "." : ";", kControls[i].first, qp::kCongestionHelp[i]);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const qp::NamedParameter& from = kCongestionParameters[i];
      parameters[i] = {
          fmt::format("congestion.{}", from.key),
          fmt::format("{}: {} (in {}, {} by default)", from.algorithm, from.help, from.unit, from.initial)};
    }
  }
};

constexpr std::array<Key, 2> kNetworkKeys = {{
    {{"congestion.cnp_interval_us", "number",
      "microseconds between two CNPs to a queue pair whose packets come marked; 0: none"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) {
       return store_integer(v, t.configuration.congestion.cnp_interval_us, 0, 1'000'000);
     }},
    {{"congestion.cnp_dscp", "number", "DSCP of CNPs"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.configuration.congestion.cnp_dscp, 0, 63); }},
}};

}  // namespace

std::span<const Key> congestion_keys() {
  static const Texts kTexts;
  static const auto kKeys = [] {
    std::array<Key, 1 + kNetworkKeys.size() + kCongestionParameters.size()> keys{};
    size_t count = 0;
    keys[count++] = {
        {"congestion.control", kTexts.choices, kTexts.choices_help},
        ValueKind::kText,
        [](Node v, KeyTarget t) { return store_choice(v, t.configuration.congestion.control, kControls); }};
    for (const Key& key : kNetworkKeys) keys[count++] = key;
    for (size_t i = 0; i < kTexts.parameters.size(); ++i)
      keys[count++] = {
          {kTexts.parameters[i].path, "number", kTexts.parameters[i].help}, ValueKind::kNumber, kStores[i]};
    return keys;
  }();
  return kKeys;
}

std::string to_toml(const CongestionOptions& congestion) {
  std::string out = fmt::format("[congestion]\ncontrol = \"{}\"\ncnp_interval_us = {}\ncnp_dscp = {}\n",
                                qp::kCongestionNames[static_cast<size_t>(congestion.control)],
                                congestion.cnp_interval_us, congestion.cnp_dscp);
  for (size_t i = 0; i < kCongestionParameters.size(); ++i)
    out += fmt::format("{} = {}\n", kCongestionParameters[i].key, congestion.parameters.at(i));
  return out + "\n";
}

}  // namespace uroce::engine
