#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>

namespace uroce::serve {

/// What stands before the first zero. It may be of another user's process, and meant for the terminal of the
/// superuser: what is not printable is shown as a question mark.
template <size_t N>
std::string printable_text(const std::array<char, N>& text) {
  std::string all(text.data(), strnlen(text.data(), N));
  std::ranges::replace_if(
      all, [](char c) { return c < ' ' || c > '~'; }, '?');
  return all;
}

}  // namespace uroce::serve
