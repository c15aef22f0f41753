#pragma once

#include <cstdint>
#include <string_view>

#include "engine/configuration/configuration.h"
#include "engine/configuration/toml_values.h"

// The one list of keys: what they are called, what they take, and how a value is stored. The parser and the
// command line both go through it, so neither can know a key that the other does not.
namespace uroce::engine {

/// How the text of a command-line option becomes a TOML value.
enum class ValueKind : uint8_t { kText, kNumber, kFlag, kTextList, kNumberList, kNeighbourList };

/// What a key is stored in. `device` is null outside [[device]].
struct KeyTarget {
  Configuration& configuration;
  DeviceConfiguration* device = nullptr;
};

struct Key {
  KeyDescription description;
  ValueKind kind;
  configuration::Complaint (*store)(const toml::node& value, KeyTarget target);
};

/// The key called "table.name", or nullptr.
const Key* find_key(std::string_view table, std::string_view name);
bool is_table(std::string_view table);

}  // namespace uroce::engine
