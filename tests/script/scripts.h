#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "words.h"

namespace uroce::script {

/// One test: `case` and its name, and the lines up to the next one.
struct Case {
  std::string name;
  Place place;
  std::vector<Line> lines;
};

/// The cases of a file. `#` begins a comment. What stands behind `#!` in a line is kept in `faults`: see
/// self_test.
struct Script {
  std::vector<Case> cases;
  std::map<int, std::string> faults;  // by line
};
Script read_script(const std::filesystem::path& file);

}  // namespace uroce::script
