#pragma once

#include <string>
#include <string_view>

#include "engine/configuration/key.h"

// The one list of keys: what they are called, what they take, and how a value is stored. The parser and the
// command line both go through it, so neither can know a key that the other does not.
namespace uroce::engine {

/// The key called "table.name", or nullptr.
const Key* find_key(std::string_view table, std::string_view name);
bool is_table(std::string_view table);

/// " (did you mean NAME?)" of a key of the table, or of a table; or nothing, when no name is near.
std::string nearest_key(std::string_view table, std::string_view name);
std::string nearest_table(std::string_view name);

}  // namespace uroce::engine
