// The configuration as text: one key from the command line, the whole of it as TOML.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "copy/kind.h"
#include "engine/configuration/congestion_keys.h"
#include "engine/configuration/keys.h"
#include "wire/address_text.h"

namespace uroce::engine {

namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

toml::array text_list(std::string_view text, char between) {
  toml::array list;
  for (const std::string_view part : split(text, between)) list.push_back(std::string(part));
  return list;
}

/// A number when the whole text is one; otherwise the text itself, which the key then refuses in its own
/// words.
void push_number(toml::array& list, std::string_view text) {
  int64_t number = 0;
  const bool hexadecimal = text.starts_with("0x");
  const char* end = text.data() + text.size();
  const auto [stop, error] =
      std::from_chars(text.data() + (hexadecimal ? 2 : 0), end, number, hexadecimal ? 16 : 10);
  if (error == std::errc{} && stop == end) {
    list.push_back(number);
  } else {
    list.push_back(std::string(text));
  }
}

toml::array neighbour_list(std::string_view text) {
  toml::array list;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    list.push_back(toml::table{{"address", std::string(part.substr(0, equals))},
                               {"mac", std::string(part.substr(std::min(equals + 1, part.size())))}});
  }
  return list;
}

/// An array that holds the value (or, for lists, the value itself): toml::node has no owner of its own.
toml::array value_from_text(ValueKind kind, std::string_view text) {
  toml::array holder;
  switch (kind) {
    case ValueKind::kText:
      holder.push_back(std::string(text));
      break;
    case ValueKind::kNumber:
      push_number(holder, text);
      break;
    case ValueKind::kFlag:
      if (text == "true" || text == "false") {
        holder.push_back(text == "true");
      } else {
        holder.push_back(std::string(text));
      }
      break;
    case ValueKind::kTextList:
      holder.push_back(text_list(text, ','));
      break;
    case ValueKind::kRuleList:
      holder.push_back(text_list(text, ';'));
      break;
    case ValueKind::kNumberList: {
      toml::array list;
      for (const std::string_view part : split(text, ',')) push_number(list, part);
      holder.push_back(std::move(list));
      break;
    }
    case ValueKind::kNeighbourList:
      holder.push_back(neighbour_list(text));
      break;
  }
  return holder;
}

/// "device.key" or "device.N.key": the index, and the path without it. An index that is no number stays in
/// the path, where no key matches it.
std::pair<size_t, std::string> device_index(std::string_view path) {
  const std::vector<std::string_view> parts = split(path, '.');
  size_t index = 0;
  if (parts.size() != 3 || parts[0] != "device") return {0, std::string(path)};
  const char* end = parts[1].data() + parts[1].size();
  const auto [stop, error] = std::from_chars(parts[1].data(), end, index);
  if (error != std::errc{} || stop != end) return {0, std::string(path)};
  return {index, fmt::format("device.{}", parts[2])};
}

std::string quoted(std::string_view text) {
  std::ostringstream out;
  out << toml::value<std::string>(std::string(text));
  return out.str();
}

template <typename List, typename Text>
std::string joined(const List& list, Text text) {
  std::string out;
  for (const auto& element : list) out += fmt::format("{}{}", out.empty() ? "" : ", ", text(element));
  return "[" + out + "]";
}

std::string_view name_of(port::KernelPath path) {
  switch (path) {
    case port::KernelPath::kXdp:
      return "xdp";
    case port::KernelPath::kPacket:
      return "packet";
    case port::KernelPath::kAuto:
      break;
  }
  return "auto";
}

std::string to_toml(const DeviceConfiguration& device) {
  const bool beside_kernel = !device.interface.empty();
  std::string out = fmt::format("[[device]]\nname = {}\n{} = {}\n", quoted(device.name),
                                beside_kernel ? "interface" : "port",
                                quoted(beside_kernel ? device.interface : device.port));
  if (!device.nic.empty()) out += fmt::format("nic = {}\n", quoted(device.nic));
  if (beside_kernel) out += fmt::format("mode = \"{}\"\n", name_of(device.kernel_path));
  if (device.mac) out += fmt::format("mac = \"{}\"\n", wire::to_text(*device.mac));
  out += fmt::format("addresses = {}\n", joined(device.addresses, [](const InterfaceAddress& a) {
                       return fmt::format("\"{}/{}{}\"", wire::to_text(a.address), a.prefix_bits,
                                          a.vlan != 0 ? fmt::format("@{}", a.vlan) : "");
                     }));
  if (device.mtu) out += fmt::format("mtu = {}\n", *device.mtu);
  out +=
      fmt::format("partition_keys = {}\n",
                  joined(device.partition_keys, [](uint16_t key) { return fmt::format("0x{:04X}", key); }));
  out += fmt::format("source_port = \"{}\"\n",
                     device.source_ports == wire::SourcePorts::kQueuePair ? "queue-pair" : "flow-label");
  out += fmt::format("mig_req = {}\nvendor_part = {}\n", device.mig_req, device.vendor_part);
  out += fmt::format("window_type2 = \"{}\"\n", device.window_type2 == WindowType2::k2A ? "2A" : "2B");
  out += fmt::format("dmadev = {}\n",
                     joined(device.dmadev, [](const std::string& text) { return quoted(text); }));
  out +=
      fmt::format("routes = {}\ngateway = {}\n",
                  joined(device.routes,
                         [](const StaticRoute& route) {
                           return fmt::format("\"{}/{} via {}\"", wire::to_text(route.to), route.prefix_bits,
                                              wire::to_text(route.via));
                         }),
                  joined(device.gateways, [](const Gid& router) { return quoted(wire::to_text(router)); }));
  out += fmt::format("neighbours = {}\n\n", joined(device.neighbours, [](const StaticNeighbour& n) {
                       return fmt::format("{{ address = \"{}\", mac = \"{}\" }}", wire::to_text(n.address),
                                          wire::to_text(n.mac));
                     }));
  return out;
}

}  // namespace

Result<Configuration> apply_override(Configuration configuration, std::string_view path,
                                     std::string_view value) {
  const auto [index, key_path] = device_index(path);
  const size_t dot = std::min(key_path.find('.'), key_path.size());
  const std::string_view table = std::string_view(key_path).substr(0, dot);
  const Key* key = find_key(table, std::string_view(key_path).substr(std::min(dot + 1, key_path.size())));
  if (key == nullptr) return Error{EINVAL, fmt::format("{}: unknown key", path)};
  KeyTarget target{configuration, nullptr};
  if (table == "device") {
    if (index > configuration.devices.size()) {
      return Error{EINVAL, fmt::format("{}: there are only {} devices", path, configuration.devices.size())};
    }
    if (index == configuration.devices.size()) {
      DeviceConfiguration& device = configuration.devices.emplace_back();
      device.name = fmt::format("uroce{}", index);
      device.port = fmt::format("loopback{}", index);
    }
    target.device = &configuration.devices[index];
  }
  const toml::array holder = value_from_text(key->kind, value);
  if (const configuration::Complaint complaint = key->store(holder[0], target)) {
    return Error{EINVAL, fmt::format("{}: {}", path, *complaint)};
  }
  return configuration;
}

Result<Configuration> with_faults_of_environment(Configuration configuration) {
  const char* const text = std::getenv("UROCE_FAULT");
  if (text == nullptr || *text == '\0') return configuration;
  const std::vector<faults::Rule> before = configuration.faults;
  Result<Configuration> with = apply_override(std::move(configuration), "faults.rules", text);
  if (!with) {
    std::string_view what = with.error().message;
    what.remove_prefix(std::string_view("faults.rules").size());
    return Error{with.error().code, fmt::format("UROCE_FAULT{}", what)};
  }
  with->faults.insert(with->faults.begin(), before.begin(), before.end());
  return with;
}

std::string to_toml(const Configuration& configuration) {
  std::string out;
  for (const DeviceConfiguration& device : configuration.devices) out += to_toml(device);
  out += fmt::format(
      "[poller]\nmode = \"{}\"\nidle = \"{}\"\ntakeover_us = {}\ncores = {}\nper_device = {}\ncycle_clock = "
      "{}\nfollow_packets = {}\n\n",
      configuration.poller_mode == PollerMode::kDedicated ? "dedicated" : "inline",
      name_of(configuration.poller_idle), configuration.takeover_us,
      joined(configuration.cores, [](uint32_t core) { return core; }), configuration.pollers_per_device,
      configuration.cycle_clock, configuration.follow_packets);
  out += to_toml(configuration.congestion);
  out += fmt::format("[recovery]\ntail_probes = {}\nselective = {}\n\n", configuration.tail_probes,
                     configuration.selective_repeat);
  out += fmt::format("[faults]\nrules = {}\n\n", joined(configuration.faults, [](const faults::Rule& rule) {
                       return quoted(faults::to_text(rule));
                     }));
  out += fmt::format("[copy]\nkind = \"{}\"\n\n", copy::find_kind(configuration.copy_kind)->name);
  out += fmt::format("[memory]\nhugepages = {}\nhonour_memlock = {}\nmegabytes = {}\nbus_offset = {}\n\n",
                     configuration.hugepages, configuration.honour_memlock, configuration.memory_mb,
                     configuration.bus_offset);
  out +=
      fmt::format("[eal]\narguments = {}\n\n",
                  joined(configuration.eal_arguments, [](const std::string& text) { return quoted(text); }));
  out += fmt::format("[log]\nlevel = {}\nformat = {}\ncounters = {}\n", quoted(configuration.log_level),
                     quoted(configuration.log_format == LogFormat::kJson ? "json" : "text"),
                     configuration.log_counters);
  return out;
}

}  // namespace uroce::engine
