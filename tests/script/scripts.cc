#include "scripts.h"

#include <fstream>

namespace uroce::script {

namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

Script read_script(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  Script script;
  std::string text;
  for (Place place{file.filename().string(), 1}; std::getline(in, text); ++place.line) {
    if (const size_t fault = text.find("#!"); fault != std::string::npos)
      script.faults[place.line] = trimmed(text.substr(fault + 2));
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    Line line(place, text);
    if (line.verb() == "case") {
      const std::string name = trimmed(text.substr(4));
      for (const Case& other : script.cases) {
        if (other.name == name) line.fail("there is a case of this name");
      }
      script.cases.push_back({name, place, {}});
    } else if (script.cases.empty()) {
      line.fail("stands before the first case");
    } else {
      script.cases.back().lines.push_back(std::move(line));
    }
  }
  return script;
}

}  // namespace uroce::script
