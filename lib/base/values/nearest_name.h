#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace uroce {

inline constexpr size_t kNearNameMax = 63;  // a longer one is near to none

/// How many characters of `written` are wrong, missing, too many or exchanged with their neighbour, if `name`
/// was meant: the distance of Damerau and Levenshtein (optimal string alignment). Both are kNearNameMax at
/// most.
inline size_t edit_distance(std::string_view written, std::string_view name) {
  using Row = std::array<size_t, kNearNameMax + 1>;
  Row before_last{};
  Row last{};
  Row row{};
  for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= written.size(); ++i) {
    before_last = last;
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= name.size(); ++j) {
      const size_t wrong = written[i - 1] == name[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + wrong});
      if (i > 1 && j > 1 && written[i - 1] == name[j - 2] && written[i - 2] == name[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[name.size()];
}

/// " (did you mean NAME?)" with that of `names` which is nearest to `written`, or nothing when none is near:
/// a third of the characters may differ.
template <typename Names, typename Name = std::identity>
std::string did_you_mean(std::string_view written, const Names& names, Name name_of = {}) {
  std::string nearest;
  size_t least = std::max<size_t>(1, written.size() / 3) + 1;
  for (const auto& each : names) {
    const std::string_view name = std::invoke(name_of, each);
    if (std::max(written.size(), name.size()) > kNearNameMax) continue;
    const size_t distance = edit_distance(written, name);
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    nearest = name;
  }
  return nearest.empty() ? std::string() : " (did you mean " + nearest + "?)";
}

}  // namespace uroce
