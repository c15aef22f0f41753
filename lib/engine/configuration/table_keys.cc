#include "engine/configuration/table_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/values/nearest_name.h"
#include "base/values/printable.h"

namespace uroce::configuration {

void Complaints::add(const toml::source_region& where, std::string_view key, std::string_view what) {
  if (!first_.empty() && where.begin.line >= line_) return;
  line_ = where.begin.line;
  first_ = fmt::format("{}: {}", place(where, key), printable(what));
}

std::string Complaints::place(const toml::source_region& where, std::string_view key) const {
  return fmt::format("{}:{}: {}", origin_, where.begin.line, printable(key));
}

void read_keys(const toml::table& table, std::string_view path, std::span<const Key> keys,
               Complaints& complaints) {
  for (const auto& [name, value] : table) {
    const std::string full = fmt::format("{}.{}", path, name.str());
    const auto key = std::ranges::find(keys, name.str(), &Key::name);
    if (key == keys.end()) {
      complaints.add(name.source(), full, "unknown key" + did_you_mean(name.str(), keys, &Key::name));
    } else if (const Complaint complaint = key->store(value)) {
      complaints.add(name.source(), full, *complaint);
    }
  }
  for (const Key& key : keys) {
    if (key.required && !table.contains(key.name))
      complaints.add(table.source(), fmt::format("{}.{}", path, key.name), "is missing");
  }
}

Complaint store_strings(const toml::node& value, std::vector<std::string>& to, size_t bytes_max) {
  return store_list(
      value, [&](const toml::node& element) { return store_string(element, to.emplace_back(), bytes_max); });
}

Complaint store_integers(const toml::node& value, std::vector<uint32_t>& to, int64_t highest) {
  return store_list(value, [&](const toml::node& element) {
    return store_integer(element, to.emplace_back(), 0, highest);
  });
}

Complaint store_size(const toml::node& value, std::optional<uint64_t>& to) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr const char* kForm = "must be a number of bytes, or a string like \"64M\" or \"10 GiB\"";
  if (const auto* number = value.as_integer(); number != nullptr && number->get() > 0) {
    to = static_cast<uint64_t>(number->get());
    return std::nullopt;
  }
  const auto* text = value.as_string();
  if (text == nullptr) return kForm;
  const std::string& all = text->get();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  std::string_view unit(stop, all.data() + all.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const size_t power = unit.empty() ? 0 : kUnits.find(unit.front()) + 1;
  const bool is_unit = unit.empty() || (power != 0 && (unit.size() == 1 || unit.substr(1) == "iB"));
  if (error != std::errc{} || number == 0 || !is_unit) return kForm;
  if (number > (uint64_t{1} << 62) >> (10 * power)) return "is too large";
  to = number << (10 * power);
  return std::nullopt;
}

}  // namespace uroce::configuration
