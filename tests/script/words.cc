#include "words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

namespace uroce::script {

Line::Line(Place place, std::string_view text) : place_(std::move(place)), text_(text) {
  std::istringstream words{text_};
  words >> verb_;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      words_.push_back(word);
    } else if (!options_.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      fail("said twice: " + word.substr(0, equals));
    }
  }
}

std::string Line::next(const std::string& what) {
  if (words_.empty()) fail(what + " is missing");
  std::string word = words_.front();
  words_.erase(words_.begin());
  return word;
}

bool Line::flag(std::string_view word) {
  const auto found = std::find(words_.begin(), words_.end(), word);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

std::optional<std::string> Line::option(const std::string& key) {
  const auto found = options_.find(key);
  if (found == options_.end()) return std::nullopt;
  std::string value = found->second;
  options_.erase(found);
  return value;
}

void Line::end() const {
  if (!words_.empty()) fail("means nothing here: " + words_.front());
  if (!options_.empty()) fail("means nothing here: " + options_.begin()->first + '=');
}

std::optional<uint64_t> Line::number(const std::string& key) {
  const auto text = option(key);
  if (!text) return std::nullopt;
  return to_number(*text);
}

uint64_t Line::to_number(const std::string& text) const {
  const bool hexadecimal = text.starts_with("0x");
  const char* const begin = text.data() + (hexadecimal ? 2 : 0);
  const char* const end = text.data() + text.size();
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end || begin == end) fail("not a number: " + text);
  return value;
}

Duration Line::to_duration(const std::string& text) const {
  constexpr Named<double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  size_t digits = 0;
  double value = 0;
  try {
    value = std::stod(text, &digits);
  } catch (const std::exception&) {
    fail("not a time: " + text);
  }
  return nanoseconds(std::llround(value * value_of(*this, kUnits, text.substr(digits), "unit of time")));
}

std::pair<std::string, std::string> Line::to_range(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {text, text};
  return {text.substr(0, dots), text.substr(dots + 2)};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{text};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace uroce::script
