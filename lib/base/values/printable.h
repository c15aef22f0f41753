#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace uroce {

/// So much of a foreign text is shown if its reader says nothing else.
inline constexpr size_t kPrintableBytesMax = 4096;

/// A text of another process, user, host or file, as it may reach a terminal, a line of a log, a label of a
/// metric, JSON or the name of a file: each byte that is no printable ASCII as \xNN, so no byte of it moves a
/// cursor, begins a line or is invalid UTF-8; "..." stands for what is longer than `bytes_max`. What is
/// printable already stays as it is, so a text may pass here more than once on its way. Quotes and
/// backslashes are for the format (JSON, Prometheus) to escape. The result has at most 4 * bytes_max + 3
/// bytes.
inline std::string printable(std::string_view text, size_t bytes_max = kPrintableBytesMax) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text.size() > bytes_max ? shown + "..." : shown;
}

/// What stands before the first zero.
template <size_t N>
std::string printable(const std::array<char, N>& text) {
  const std::string_view all(text.data(), N);
  return printable(all.substr(0, all.find('\0')));
}

}  // namespace uroce
