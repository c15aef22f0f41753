#include "host/key_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace uroce::host {

Status store_pairs(std::string_view text,
                   const std::function<Complaint(std::string_view key, std::string_view value)>& store) {
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return Error{EINVAL, fmt::format("\"{}\": must be KEY=VALUE", part)};
    const std::string_view key = part.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) return Error{EINVAL, fmt::format("{}: given twice", key)};
    seen.push_back(key);
    if (const Complaint complaint = store(key, part.substr(equals + 1)))
      return Error{EINVAL, fmt::format("{}: {}", key, *complaint)};
  }
  return {};
}

}  // namespace uroce::host
