#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace uroce::perf {

/// Two reports of json_of() beside each other, as a table: figures that both have samples of, the change and
/// its confidence interval.
std::string comparison_of(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);

/// Prints the comparison of two files. Returns the exit status: 0, or 1 when they are not to be compared,
/// which is told on standard error.
int compare(const std::string& before, const std::string& after);

}  // namespace uroce::perf
