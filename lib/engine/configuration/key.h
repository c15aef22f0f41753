#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/configuration/configuration.h"
#include "engine/configuration/toml_values.h"

// What a key of a configuration is.
namespace uroce::engine {

/// How the text of a command-line option becomes a TOML value.
enum class ValueKind : uint8_t { kText, kNumber, kFlag, kTextList, kNumberList, kNeighbourList, kRuleList };

/// What a key is stored in. `device` is null outside [[device]].
struct KeyTarget {
  Configuration& configuration;
  DeviceConfiguration* device = nullptr;
};

/// Elements of a list in a configuration.
inline constexpr size_t kListMax = 1024;

struct Key {
  KeyDescription description;
  ValueKind kind;
  configuration::Complaint (*store)(const toml::node& value, KeyTarget target);
};

}  // namespace uroce::engine
