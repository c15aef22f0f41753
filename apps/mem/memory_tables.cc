#include "apps/mem/memory_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "apps/mem/layout.h"
#include "base/values/printable.h"
#include "engine/configuration/table_keys.h"
#include "engine/configuration/toml_document.h"

namespace uroce::memory_export {
namespace {

using configuration::Complaint;
using configuration::Complaints;
using configuration::Key;

constexpr size_t kPathMax = 4095;
constexpr size_t kRegionsMax = 1024;

Complaint store_name(const toml::node& value, std::string& to) {
  if (Complaint complaint = configuration::store_string(value, to, kNameMax)) return complaint;
  return is_region_name(to) ? Complaint{} : "must be printable ASCII, without a space at either end";
}

Complaint store_access(const toml::node& value, bool& writable) {
  std::string access;
  if (const auto* text = value.as_string(); text != nullptr) access = text->get();
  if (access != "read" && access != "write") return "must be \"read\" or \"write\"";
  writable = access == "write";
  return std::nullopt;
}

void read_table(const toml::table& table, std::vector<RegionConfiguration>& regions, Complaints& complaints) {
  RegionConfiguration region;
  const Key keys[] = {
      {"name", [&](const auto& value) { return store_name(value, region.name); }, true},
      {"file", [&](const auto& value) { return configuration::store_string(value, region.file, kPathMax); },
       true},
      {"size", [&](const auto& value) { return configuration::store_size(value, region.size); }},
      {"access", [&](const auto& value) { return store_access(value, region.writable); }},
      {"allow_any_host",
       [&](const auto& value) { return configuration::store_flag(value, region.allow_any_host); }},
  };
  configuration::read_keys(table, "memory", keys, complaints);
  if (!region.name.empty() && std::ranges::count(regions, region.name, &RegionConfiguration::name) != 0)
    complaints.add(table.source(), "memory.name", fmt::format("two regions called \"{}\"", region.name));
  if (regions.size() == kRegionsMax)
    complaints.add(table.source(), "memory", fmt::format("more than {} regions", kRegionsMax));
  regions.push_back(std::move(region));
}

}  // namespace

Result<std::vector<RegionConfiguration>> parse_memory_tables(std::string_view text,
                                                             const std::string& origin) {
  const Result<toml::table> document = configuration::parse_document(text, origin);
  if (!document) return document.error();
  std::vector<RegionConfiguration> regions;
  const toml::node* const node = document->get("memory");
  // The table [memory] is the stack's.
  const toml::array* const list = node == nullptr ? nullptr : node->as_array();
  if (list == nullptr) return regions;
  Complaints complaints(origin);
  for (const toml::node& element : *list) {
    if (const toml::table* const table = element.as_table(); table != nullptr) {
      read_table(*table, regions, complaints);
    } else {
      complaints.add(element.source(), "memory", "must be a list of tables: [[memory]]");
    }
  }
  if (!complaints.first().empty()) return Error{EINVAL, complaints.first()};
  return regions;
}

Result<std::vector<RegionConfiguration>> read_memory_tables(const std::string& path) {
  const Result<std::string> text = read_regular_file(path);
  return text ? parse_memory_tables(*text, path) : text.error();
}

}  // namespace uroce::memory_export
