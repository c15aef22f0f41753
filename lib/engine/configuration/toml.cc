#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/values/printable.h"
#include "engine/configuration/configuration.h"
#include "engine/configuration/keys.h"
#include "engine/configuration/toml_document.h"
#include "net/prefix.h"
#include "wire/address_text.h"

namespace uroce::engine {

namespace {

/// Tables of programs that share the file with the devices: the program that owns one checks it.
constexpr std::array<std::string_view, 2> kTablesOfPrograms{"nvmf", "service"};

/// One run over a TOML document. The first error ends it.
class Parser {
 public:
  explicit Parser(std::string_view origin) : origin_(origin) {}

  Result<Configuration> parse(std::string_view text) {
    const Result<toml::table> document = configuration::parse_document(text, origin_);
    if (!document) return document.error();
    for (const auto& [key, node] : *document) top_level(key, node);
    if (configuration_.devices.empty()) configuration_.devices = default_configuration().devices;
    if (!error_.empty()) return Error{EINVAL, error_};
    return std::move(configuration_);
  }

 private:
  void fail(const toml::source_region& where, std::string_view key, std::string_view complaint) {
    // The document's tables are sorted by name; of several errors the first in the file is told.
    if (!error_.empty() && where.begin.line >= error_line_) return;
    error_line_ = where.begin.line;
    error_ = fmt::format("{}:{}: {}: {}", origin_, where.begin.line, printable(key), printable(complaint));
  }

  void top_level(const toml::key& key, const toml::node& node) {
    if (std::ranges::find(kTablesOfPrograms, key.str()) != kTablesOfPrograms.end()) return;
    // The list of tables [[memory]] is a memory server's, the table [memory] is the stack's.
    if (key.str() == "memory" && node.is_array()) return;
    if (!is_table(key.str()))
      return fail(key.source(), key.str(), "unknown table or key" + nearest_table(key.str()));
    if (key.str() == "device") return devices(key, node);
    const toml::table* table = node.as_table();
    if (table == nullptr)
      return fail(key.source(), key.str(), fmt::format("must be a table: [{}]", key.str()));
    keys(key.str(), *table, nullptr);
  }

  void devices(const toml::key& key, const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return fail(key.source(), "device", "must be a list of tables: [[device]]");
    for (const toml::node& element : *list) {
      const toml::table* table = element.as_table();
      if (table == nullptr) return fail(element.source(), "device", "must be a list of tables: [[device]]");
      DeviceConfiguration device;
      device.name = fmt::format("uroce{}", configuration_.devices.size());
      device.port = fmt::format("loopback{}", configuration_.devices.size());
      keys("device", *table, &device);
      if (!device.interface.empty()) {
        must_lack(*table, {"port", "mac", "addresses", "neighbours", "routes", "gateway"}, "an interface");
      } else {
        must_lack(*table, {"mode", "nic"}, "a port of its own");
      }
      if (device.port.substr(0, device.port.find(',')) == "host")
        must_lack(*table, {"mtu", "addresses", "neighbours", "routes", "gateway", "dmadev"},
                  "a device of the host service, which has its own");
      for (const StaticRoute& route : device.routes) router(*table, "routes", device, route.via);
      for (const Gid& gateway : device.gateways) router(*table, "gateway", device, gateway);
      for (const DeviceConfiguration& other : configuration_.devices) {
        if (other.name == device.name)
          fail(table->source(), "device.name", "two devices called " + device.name);
        if (other.port == device.port)
          fail(table->source(), "device.port", "two devices on port " + device.port);
      }
      configuration_.devices.push_back(std::move(device));
    }
  }

  /// A router must be reachable on a link of ours.
  void router(const toml::table& table, std::string_view name, const DeviceConfiguration& device,
              const Gid& address) {
    const net::Prefix link_local{{{0xFE, 0x80}}, 64};
    const bool on_link =
        link_local.contains(address) ||
        std::ranges::any_of(device.addresses, [&](const InterfaceAddress& ours) {
          return net::Prefix{ours.address, ours.prefix_bits}.contains(address) && ours.address != address;
        });
    if (on_link) return;
    fail(table.get(name)->source(), fmt::format("device.{}", name),
         fmt::format("router {} is in no network of an address of ours", wire::to_text(address)));
  }

  /// What `owner`, the kernel or the service, says about its device, the configuration does not.
  void must_lack(const toml::table& table, std::initializer_list<std::string_view> names,
                 std::string_view owner) {
    for (const std::string_view name : names) {
      const toml::node* value = table.get(name);
      const toml::array* list = value == nullptr ? nullptr : value->as_array();
      if (value == nullptr || (list != nullptr && list->empty())) continue;
      fail(value->source(), fmt::format("device.{}", name),
           fmt::format("does not go together with {}", owner));
    }
  }

  void keys(std::string_view table_name, const toml::table& table, DeviceConfiguration* device) {
    for (const auto& [name, value] : table) {
      const std::string path = fmt::format("{}.{}", table_name, name.str());
      const Key* key = find_key(table_name, name.str());
      if (key == nullptr) {
        fail(name.source(), path, "unknown key" + nearest_key(table_name, name.str()));
      } else if (const configuration::Complaint complaint = key->store(value, {configuration_, device})) {
        fail(name.source(), path, *complaint);
      }
    }
  }

  std::string_view origin_;
  Configuration configuration_;
  std::string error_;
  toml::source_index error_line_ = 0;
};

}  // namespace

Configuration default_configuration() {
  Configuration configuration;
  configuration.devices.push_back({.name = "uroce0", .port = "host"});
  return configuration;
}

Configuration embedded_pair() {
  // Addresses of TEST-NET-1 (RFC 5737): no real network has them.
  Configuration configuration;
  for (uint8_t i = 0; i < 2; ++i) {
    DeviceConfiguration device;
    device.name = fmt::format("uroce{}", i);
    device.port = fmt::format("loopback{}", i);
    device.mac = MacAddress{{0x02, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)}};  // told before it is opened
    device.addresses = {{Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(i + 1)}), 24}};
    configuration.devices.push_back(std::move(device));
  }
  return configuration;
}

Result<Configuration> parse_configuration(std::string_view toml, std::string_view origin) {
  return Parser(origin).parse(toml);
}

Result<Configuration> read_configuration(const std::string& path) {
  const Result<std::string> text = read_regular_file(path);
  return text ? parse_configuration(*text, path) : text.error();
}

Result<Configuration> configuration_from_environment() {
  if (const char* text = std::getenv("UROCE_CONFIG_TEXT"); text != nullptr && *text != '\0') {
    return parse_configuration(text, "UROCE_CONFIG_TEXT");
  }
  if (const char* path = std::getenv("UROCE_CONFIG"); path != nullptr && *path != '\0') {
    return read_configuration(path);
  }
  return default_configuration();
}

}  // namespace uroce::engine
