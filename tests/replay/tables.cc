#include "tables.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace uroce::replay {

namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

uint8_t number(const std::string& text) { return static_cast<uint8_t>(std::stoul(text, nullptr, 0)); }

const std::vector<std::vector<std::string>>& condition_rows() {
  static const auto rows = read_table("conditions.txt", 4);
  return rows;
}

void apply(const std::string& condition, Conditions& to) {
  if (condition == "loss") {
    to.loss = true;
  } else if (condition == "duplication") {
    to.duplication = true;
  } else if (condition == "reordering") {
    to.reordering = true;
  } else if (condition == "own recovery") {
    to.own_recovery = true;
  } else if (condition.starts_with("timeout ")) {
    to.timeout = number(condition.substr(8));
  } else {
    throw std::runtime_error("conditions.txt: what is '" + condition + "'?");
  }
}

}  // namespace

std::vector<std::vector<std::string>> read_table(const std::string& file, size_t columns) {
  std::ifstream lines(UROCE_REPLAY_TABLES "/" + file);
  if (!lines) throw std::runtime_error(file + " cannot be read");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::vector<std::string> row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '|');) row.push_back(trimmed(cell));
    if (row.size() != columns) throw std::runtime_error(file + ": " + line);
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<MissingRow>& missing_rows() {
  static const auto rows = [] {
    std::vector<MissingRow> found;
    for (const auto& row : read_table("missing.txt", 3))
      found.push_back({row[0], std::stoul(row[1]), row[2]});
    return found;
  }();
  return rows;
}

const std::vector<DeviationRow>& deviation_rows() {
  static const auto rows = [] {
    std::vector<DeviationRow> found;
    for (const auto& row : read_table("known_deviations.txt", 6)) {
      found.push_back({row[0], std::stoul(row[1]), row[2], number(row[3]), number(row[4])});
    }
    return found;
  }();
  return rows;
}

Conditions conditions_of(const std::string& capture, const std::string& end) {
  Conditions found;
  for (const auto& row : condition_rows()) {
    if (row[0] == capture && row[1] == end) apply(row[2], found);
  }
  return found;
}

std::vector<std::string> conditioned_captures() {
  std::vector<std::string> names;
  for (const auto& row : condition_rows()) names.push_back(row[0]);
  return names;
}

}  // namespace uroce::replay
