#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::replay {

/// Rows of a table in this folder: columns are separated by '|', '#' begins a comment. Throws
/// std::runtime_error when a row has another number of columns.
std::vector<std::vector<std::string>> read_table(const std::string& file, size_t columns);

/// missing.txt: the first operation of a capture that this stack does not have.
struct MissingRow {
  std::string capture;
  size_t frame = 0;
  std::string operation;
  bool operator==(const MissingRow&) const = default;
};
const std::vector<MissingRow>& missing_rows();

/// known_deviations.txt: where the kernel answers otherwise than the standard asks.
struct DeviationRow {
  std::string capture;
  size_t frame = 0;
  std::string field;  // "syndrome" or "opcode"
  uint8_t kernel = 0;
  uint8_t standard = 0;
};
const std::vector<DeviationRow>& deviation_rows();

/// conditions.txt: what a capture's packets do not tell about an end.
struct Conditions {
  bool loss = false;         // not all that it sent reached the point of capture
  bool duplication = false;  // some of it was captured twice
  bool reordering = false;   // not in the order in which it was sent
  bool own_recovery = false;
  uint8_t timeout = 14;  // of its queue pair: 4.096 us * 2^timeout
};
Conditions conditions_of(const std::string& capture, const std::string& end);
/// Captures that the table names.
std::vector<std::string> conditioned_captures();

}  // namespace uroce::replay
