#include "service/configuration.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/values/nearest_name.h"
#include "base/values/printable.h"
#include "engine/configuration/toml_document.h"
#include "engine/configuration/toml_values.h"

namespace uroce::service {
namespace {

using configuration::Complaint;
using configuration::store_integer;

constexpr size_t kPathMax = 107;  // sockaddr_un::sun_path
constexpr size_t kFileMax = 4095;
constexpr uint32_t kModeMax = 0666;
constexpr int64_t kMemoryConnectionsMax = 256;  // those of all its clients
constexpr int64_t kProgramsMax = 4094;          // blocks of queue pair numbers
constexpr int64_t kMegabytesMin = 8;            // more than one program takes
constexpr int64_t kMegabytesMax = 1 << 24;

Complaint store_mode(const toml::node& value, uint32_t& to) {
  constexpr const char* kForm = "must be an octal number in quotes from \"0600\" to \"0666\"";
  const auto* text = value.as_string();
  if (text == nullptr) return kForm;
  const std::string& all = text->get();
  const auto [stop, error] = std::from_chars(all.data(), all.data() + all.size(), to, 8);
  if (error != std::errc{} || stop != all.data() + all.size() || (to & ~kModeMax) != 0) return kForm;
  if ((to & 0600) != 0600) return "must let the service's own user read and write";
  return std::nullopt;
}

Complaint store_user(const toml::node& value, uid_t& to) {
  if (const auto* number = value.as_integer(); number != nullptr)
    return store_integer(value, to, 0, UINT32_MAX - 1);
  const auto* name = value.as_string();
  if (name == nullptr) return "must be a list of names and numbers of users";
  const passwd* const user = getpwnam(name->get().c_str());
  if (user == nullptr) return fmt::format("there is no user \"{}\"", name->get());
  to = user->pw_uid;
  return std::nullopt;
}

/// The name of a file that can be read.
Complaint store_file(const toml::node& value, std::string& to) {
  if (Complaint complaint = configuration::store_string(value, to, kFileMax)) return complaint;
  if (access(to.c_str(), R_OK) == 0) return std::nullopt;
  return fmt::format("{}: {}", to, std::strerror(errno));
}

struct Key {
  std::string_view name;
  Complaint (*store)(const toml::node& value, ServiceConfiguration& to);
};

constexpr std::array<Key, 16> kKeys = {{
    {"socket", [](const toml::node& v,
                  ServiceConfiguration& t) { return configuration::store_string(v, t.socket, kPathMax); }},
    {"mode", [](const toml::node& v, ServiceConfiguration& t) { return store_mode(v, t.mode); }},
    {"users",
     [](const toml::node& v, ServiceConfiguration& t) {
       std::vector<uid_t>& users = t.users.emplace();
       return configuration::store_list(
           v, [&](const toml::node& element) { return store_user(element, users.emplace_back()); });
     }},
    {"idle_exit_s",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.idle_exit_s.emplace(), 0, 86'400);
     }},
    {"nvmf", [](const toml::node& v, ServiceConfiguration& t) { return store_file(v, t.nvmf); }},
    {"memory_connections_per_client",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.memory_connections_per_client, 1, kMemoryConnectionsMax);
     }},
    {"programs",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.programs, 1, kProgramsMax);
     }},
    {"programs_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.programs_per_user, 1, kProgramsMax);
     }},
    {"numbers_per_program",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.numbers_per_program, 4096, 1 << 22);
     }},
    {"numbers_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.numbers_per_user, 4096, 1 << 24);
     }},
    {"ports_per_program",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.ports_per_program, 0, 65'535);
     }},
    {"ports_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.ports_per_user, 0, 65'535);
     }},
    {"groups_per_program",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.groups_per_program, 0, 65'535);
     }},
    {"groups_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.groups_per_user, 0, 65'535);
     }},
    {"memory_mb_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.memory_mb_per_user.emplace(), kMegabytesMin, kMegabytesMax);
     }},
    {"descriptors_per_user",
     [](const toml::node& v, ServiceConfiguration& t) {
       return store_integer(v, t.quotas.descriptors_per_user.emplace(), 4, 1 << 24);
     }},
}};

}  // namespace

Result<ServiceConfiguration> parse_service_configuration(std::string_view text, const std::string& origin) {
  const Result<toml::table> document = configuration::parse_document(text, origin);
  if (!document) return document.error();
  ServiceConfiguration configuration;
  configuration.has_devices = document->contains("device");
  const toml::node* const node = document->get("service");
  if (node == nullptr) return configuration;
  const toml::table* const table = node->as_table();
  if (table == nullptr)
    return Error{
        EINVAL, fmt::format("{}:{}: service: must be a table: [service]", origin, node->source().begin.line)};
  std::string first;
  toml::source_index line = 0;
  for (const auto& [name, value] : *table) {
    const auto key = std::ranges::find(kKeys, name.str(), &Key::name);
    const Complaint complaint = key == kKeys.end()
                                    ? Complaint("unknown key" + did_you_mean(name.str(), kKeys, &Key::name))
                                    : key->store(value, configuration);
    const toml::source_index at = name.source().begin.line;
    if (!complaint || (!first.empty() && at >= line)) continue;
    line = at;
    first = fmt::format("{}:{}: service.{}: {}", origin, at, printable(name.str()), printable(*complaint));
  }
  if (!first.empty()) return Error{EINVAL, first};
  return configuration;
}

Result<ServiceConfiguration> read_service_configuration(const std::string& path) {
  const Result<std::string> text = read_regular_file(path);
  return text ? parse_service_configuration(*text, path) : text.error();
}

}  // namespace uroce::service
