#include "apps/perf/report/report_csv.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/perf/report/report_json.h"

namespace uroce::perf {

std::string csv_of(const Report& report) {
  const auto json = nlohmann::ordered_json::parse(json_of(report));
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  const auto note = [](std::vector<std::string>& all, const std::string& name) {
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  };
  for (const auto& [key, value] : json.items()) {
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos || !value.is_number()) continue;
    note(rows, key.substr(0, dot));
    note(columns, key.substr(dot + 1));
    cells[{key.substr(0, dot), key.substr(dot + 1)}] = value.dump();
  }
  std::string text = "measurement";
  for (const std::string& column : columns) text += "," + column;
  text += "\n";
  for (const std::string& row : rows) {
    text += row;
    for (const std::string& column : columns) text += "," + cells[{row, column}];
    text += "\n";
  }
  return text;
}

}  // namespace uroce::perf
