#pragma once

#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/process/regular_file.h"
#include "base/values/printable.h"
#include "base/values/result.h"

// Reading a document of TOML from an untrusted writer.
namespace uroce::configuration {

/// Parts of a dotted key, and brackets within brackets. The parser goes one call deeper for each, and so does
/// the end of the document.
inline constexpr size_t kKeyPartsMax = 16;
inline constexpr size_t kBracketsMax = 32;

/// Where a document has more of them than there may be: its line, from 1. Looks at brackets and dots outside
/// of strings and comments only, and knows no more of TOML.
inline std::optional<size_t> too_deep(std::string_view text) {
  size_t line = 1, brackets = 0, parts = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const bool several_lines = text.substr(i, 3) == std::string(3, c);
      const std::string end(several_lines ? 3 : 1, c);
      for (i += end.size(); i < text.size() && text.substr(i, end.size()) != end; ++i) {
        if (text[i] == '\\' && c == '"') ++i;
        if (i < text.size() && text[i] == '\n') {
          ++line;
          if (!several_lines) break;
        }
      }
      i = std::min(i + end.size(), text.size());
      // A string of several lines may end with one or two quotes of its own.
      for (int more = 0; several_lines && more < 2 && i < text.size() && text[i] == c; ++more) ++i;
      --i;
    } else if (c == '.') {
      if (++parts > kKeyPartsMax) return line;
    } else if (c != ' ' && c != '\t' && std::string_view("=,[]{}\n").find(c) != std::string_view::npos) {
      parts = 1;
      if (c == '\n') ++line;
      if (c == '[' || c == '{') ++brackets;
      if ((c == ']' || c == '}') && brackets > 0) --brackets;
      if (brackets > kBracketsMax) return line;
    }
  }
  return std::nullopt;
}

/// The tables of a document. The error is one line: "ORIGIN:LINE: what is wrong". Throws nothing.
inline Result<toml::table> parse_document(std::string_view text, std::string_view origin) {
  try {
    if (text.size() > kTextFileBytesMax)
      return Error{EFBIG, fmt::format("{}: has more than {} bytes", origin, kTextFileBytesMax)};
    if (const auto line = too_deep(text))
      return Error{EINVAL, fmt::format("{}:{}: keys of more than {} parts, or brackets more than {} deep",
                                       origin, *line, kKeyPartsMax, kBracketsMax)};
    toml::parse_result document = toml::parse(text, origin);
    if (document) return std::move(document).table();
    return Error{EINVAL, fmt::format("{}:{}: {}", origin, document.error().source().begin.line,
                                     printable(document.error().description()))};
  } catch (const std::exception& error) {
    return Error{ENOMEM, fmt::format("{}: {}", origin, error.what())};
  }
}

/// Reads and parses a regular file of kTextFileBytesMax at most.
inline Result<toml::table> read_document(const std::string& path) {
  const Result<std::string> text = read_regular_file(path);
  return text ? parse_document(*text, path) : text.error();
}

}  // namespace uroce::configuration
