#include "engine/configuration/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/values/nearest_name.h"
#include "copy/kind.h"
#include "engine/configuration/address_values.h"
#include "engine/configuration/congestion_keys.h"

namespace uroce::engine {

using namespace configuration;

namespace {

// Storing one value: each function returns what is wrong, in words that fit behind the key's name.

constexpr size_t kDeviceNameMax = 63;  // ibv_device::name
constexpr size_t kTextMax = 4096;
constexpr int64_t kMtuMin = 576;
constexpr int64_t kMtuMax = 9216;
constexpr int64_t kBusOffsetMax = int64_t{1} << 58;

constexpr std::array<std::pair<std::string_view, port::KernelPath>, 3> kKernelPaths = {
    {{"auto", port::KernelPath::kAuto},
     {"xdp", port::KernelPath::kXdp},
     {"packet", port::KernelPath::kPacket}}};
constexpr std::array<std::pair<std::string_view, PollerMode>, 2> kModes = {
    {{"inline", PollerMode::kInline}, {"dedicated", PollerMode::kDedicated}}};
constexpr std::array<std::pair<std::string_view, PollerIdle>, 4> kIdle = {
    {{"auto", PollerIdle::kAuto},
     {"spin", PollerIdle::kSpin},
     {"yield", PollerIdle::kYield},
     {"interrupt", PollerIdle::kInterrupt}}};
constexpr std::array<std::pair<std::string_view, WindowType2>, 2> kWindowTypes = {
    {{"2A", WindowType2::k2A}, {"2B", WindowType2::k2B}}};
constexpr std::array<std::pair<std::string_view, wire::SourcePorts>, 2> kSourcePorts = {
    {{"flow-label", wire::SourcePorts::kFlowLabel}, {"queue-pair", wire::SourcePorts::kQueuePair}}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLogLevels = {
    {{"none", "none"}, {"error", "error"}, {"warning", "warning"}, {"info", "info"}, {"debug", "debug"}}};

constexpr std::array<std::pair<std::string_view, LogFormat>, 2> kLogFormats = {
    {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}};

Complaint store_log_level(const toml::node& value, std::string& to) {
  std::string_view level;
  Complaint complaint = store_choice(value, level, kLogLevels);
  if (!complaint) to = level;
  return complaint;
}

Complaint store_copy_kind(const toml::node& value, copy::Kind& to) {
  const auto* text = value.as_string();
  const copy::KindRow* row = text != nullptr ? copy::find_kind(text->get()) : nullptr;
  if (row != nullptr) {
    to = row->kind;
    return std::nullopt;
  }
  std::string known;
  for (const copy::KindRow& kind : copy::kinds())
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", kind.name);
  return fmt::format("must be one of {} (on this CPU)", known);
}

/// Queue pairs and processes have no numbers yet.
Complaint store_rule(const toml::node& value, faults::Rule& to) {
  const auto* text = value.as_string();
  if (text == nullptr) return "must be a list of rules such as \"loss=1%,seed=7\"";
  const auto rule = faults::parse_rule(text->get());
  if (!rule) return rule.error().message;
  if (rule->scope.queue_pair || rule->scope.client)
    return "qp and client are for uroce fault, while programs run";
  to = *rule;
  return std::nullopt;
}

Complaint store_partition_keys(const toml::node& value, std::vector<uint16_t>& to) {
  constexpr size_t kCountMax = 128;
  std::vector<uint16_t> list;
  Complaint complaint = store_vector(value, list, kCountMax, [](const toml::node& element, uint16_t& key) {
    Complaint wrong = store_integer(element, key, 1, 0xFFFF);
    if (!wrong && (key & 0x7FFF) == 0) return Complaint("0x8000 is no partition");
    return wrong;
  });
  if (complaint) return complaint;
  if (list.empty()) return "must have a partition key";
  to = std::move(list);
  return std::nullopt;
}

/// The port beside the kernel is that of the NIC, if it is named, whichever key comes first.
Complaint store_nic(const toml::node& value, DeviceConfiguration& to) {
  if (Complaint complaint = store_string(value, to.nic, kTextMax)) return complaint;
  if (!to.interface.empty()) to.port = to.nic;
  return std::nullopt;
}

Complaint store_interface(const toml::node& value, DeviceConfiguration& to) {
  constexpr size_t kInterfaceNameMax = 15;
  if (Complaint complaint = store_string(value, to.interface, kInterfaceNameMax)) return complaint;
  if (to.interface.find_first_of(",/ ") != std::string::npos) return "must be the name of an interface";
  to.port = to.nic.empty() ? port::packet_port_on(to.interface) : to.nic;
  return std::nullopt;
}

Complaint store_core(const toml::node& value, uint32_t& to) { return store_integer(value, to, 0, 4095); }

using Node = const toml::node&;

constexpr std::array<Key, 36> kGeneralKeys = {{
    {{"device.name", "string", "name of the device, as ibv_devices shows it"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_string(v, t.device->name, kDeviceNameMax); }},
    {{"device.port", "string", "loopbackN (wires join 0 and 1, 2 and 3, ...) or DPDK devargs"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_string(v, t.device->port, kTextMax); }},
    {{"device.interface", "string",
      "instead of a port: an interface of the kernel, beside which the device stands"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_interface(v, *t.device); }},
    {{"device.mode", "auto, xdp or packet",
      "with an interface: frames by AF_XDP, by AF_PACKET, or by the better of those that can be had"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.device->kernel_path, kKernelPaths); }},
    {{"device.nic", "string",
      "with an interface: the same NIC as DPDK devargs, which rules tell to deliver RoCE alone; if it "
      "refuses, "
      "mode counts"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_nic(v, *t.device); }},
    {{"device.mac", "MAC address", "instead of the port's own"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_mac(v, t.device->mac.emplace()); }},
    {{"device.addresses", "list of ADDRESS/PREFIX[@VLAN]",
      "IPv4 and IPv6 addresses; GIDs 1, 2, ... in this order"},
     ValueKind::kTextList,
     [](Node v, KeyTarget t) { return store_addresses(v, t.device->addresses); }},
    {{"device.mtu", "number", "link MTU as `ip link` shows it; default: what the port carries"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.device->mtu.emplace(), kMtuMin, kMtuMax); }},
    {{"device.neighbours", "list of ADDRESS=MAC", "neighbours that are not to be asked for"},
     ValueKind::kNeighbourList,
     [](Node v, KeyTarget t) { return store_vector(v, t.device->neighbours, kListMax, store_neighbour); }},
    {{"device.routes", "list of PREFIX via ROUTER", "ways to other networks; the router is on one of ours"},
     ValueKind::kTextList,
     [](Node v, KeyTarget t) { return store_vector(v, t.device->routes, kListMax, store_route); }},
    {{"device.gateway", "list of ADDRESS", "router for all other networks, one of IPv4 and one of IPv6"},
     ValueKind::kTextList,
     [](Node v, KeyTarget t) { return store_gateways(v, t.device->gateways); }},
    {{"device.partition_keys", "list of numbers", "P_Keys 0, 1, ... in this order; bit 15 says full member"},
     ValueKind::kNumberList,
     [](Node v, KeyTarget t) { return store_partition_keys(v, t.device->partition_keys); }},
    {{"device.source_port", "flow-label or queue-pair",
      "UDP source ports: from the flow label or both queue pair numbers, or from our own number only"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.device->source_ports, kSourcePorts); }},
    {{"device.mig_req", "true or false",
      "MigReq of RC, UC and XRC packets: set, as NICs do without path migration, or false for a peer that "
      "wants 0"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.device->mig_req); }},
    {{"device.vendor_part", "number",
      "vendor_part_id that programs are shown; some use inline data or ibv_wr_* only with one they know"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.device->vendor_part, 0, UINT32_MAX); }},
    {{"device.window_type2", "2A or 2B", "what ibv_alloc_mw makes when it is asked for type 2"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.device->window_type2, kWindowTypes); }},
    {{"device.dmadev", "list of strings",
      "DMA devices of DPDK that copy what peers send into memory of urocedv_alloc_memory, one for each "
      "poller"},
     ValueKind::kTextList,
     [](Node v, KeyTarget t) {
       return store_vector(v, t.device->dmadev, kListMax,
                           [](Node e, std::string& to) { return store_string(e, to, kTextMax); });
     }},
    {{"poller.mode", "inline or dedicated",
      "turned by the application's calls, or by threads that do nothing else"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.configuration.poller_mode, kModes); }},
    {{"poller.idle", "auto, spin, yield or interrupt",
      "what a thread of ours that finds nothing does: keep its CPU, offer it, or sleep until a frame comes"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.configuration.poller_idle, kIdle); }},
    {{"poller.takeover_us", "number",
      "inline: a poller left alone for this long is turned by a background thread"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.configuration.takeover_us, 1, 1'000'000); }},
    {{"poller.cores", "list of numbers",
      "CPUs of the poller threads (dedicated), of the background thread (inline)"},
     ValueKind::kNumberList,
     [](Node v, KeyTarget t) { return store_vector(v, t.configuration.cores, kListMax, store_core); }},
    {{"poller.per_device", "number", "pollers, and queues of the port, for each device"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) {
       return store_integer(v, t.configuration.pollers_per_device, 1, kPollersPerDeviceMax);
     }},
    {{"poller.cycle_clock", "true or false",
      "tell the time by the CPU's cycle counter, if it is steady, instead of the system's clock"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.cycle_clock); }},
    {{"poller.follow_packets", "true or false", "a queue pair moves to the poller that its packets come to"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.follow_packets); }},
    {{"recovery.tail_probes", "true or false",
      "send the oldest packet once more when its answer is late by the round trips so far, not only after "
      "the "
      "ACK timeout"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.tail_probes); }},
    {{"recovery.selective", "true or false",
      "selective repeat: buffer out-of-order packets, retransmit only gaps; false: go-back-N"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.selective_repeat); }},
    {{"faults.rules", "list of rules",
      "what packets that a device receives meet, such as loss=1%,delay=100us,seed=7 (uroce fault add "
      "--help)"},
     ValueKind::kRuleList,
     [](Node v, KeyTarget t) {
       return store_vector(v, t.configuration.faults, faults::kRulesMax, store_rule);
     }},
    {{"copy.kind", "string", "how payload is stored: auto, ordinary, string, non-temporal[-128|-256|-512]"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_copy_kind(v, t.configuration.copy_kind); }},
    {{"memory.hugepages", "true or false", "use hugepages when there are any"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.hugepages); }},
    {{"memory.honour_memlock", "true or false", "refuse to register more than RLIMIT_MEMLOCK allows"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.honour_memlock); }},
    {{"memory.megabytes", "number", "memory for packet buffers of DPDK ports"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.configuration.memory_mb, 32, 1 << 20); }},
    {{"memory.bus_offset", "number", "added to every bus address (urocedv_dma_map_*): for tests"},
     ValueKind::kNumber,
     [](Node v, KeyTarget t) { return store_integer(v, t.configuration.bus_offset, 0, kBusOffsetMax); }},
    {{"eal.arguments", "list of strings", "more arguments for rte_eal_init"},
     ValueKind::kTextList,
     [](Node v, KeyTarget t) {
       return store_vector(v, t.configuration.eal_arguments, kListMax,
                           [](Node e, std::string& to) { return store_string(e, to, kTextMax); });
     }},
    {{"log.level", "none, error, warning, info or debug",
      "what is written to standard error; info: also why queue pairs fail; UROCE_LOG overrides it"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_log_level(v, t.configuration.log_level); }},
    {{"log.format", "text or json", "how lines on standard error look: json is an object for each"},
     ValueKind::kText,
     [](Node v, KeyTarget t) { return store_choice(v, t.configuration.log_format, kLogFormats); }},
    {{"log.counters", "true or false", "write each device's counters to standard error when it closes"},
     ValueKind::kFlag,
     [](Node v, KeyTarget t) { return store_flag(v, t.configuration.log_counters); }},
}};

std::span<const Key> all_keys() {
  static const auto kKeys = [] {
    std::vector<Key> keys(kGeneralKeys.begin(), kGeneralKeys.end());
    std::ranges::copy(congestion_keys(), std::back_inserter(keys));
    return keys;
  }();
  return kKeys;
}

// From the load on: a child that is forked while a thread makes it would wait for that thread for ever.
[[maybe_unused]] const bool made_at_load = (all_keys(), true);

std::string_view table_of(const Key& key) {
  return key.description.path.substr(0, key.description.path.find('.'));
}

}  // namespace

std::string_view name_of(PollerIdle idle) {
  return std::ranges::find(kIdle, idle, &std::pair<std::string_view, PollerIdle>::second)->first;
}

std::span<const KeyDescription> configuration_keys() {
  static const auto kDescriptions = [] {
    std::vector<KeyDescription> descriptions;
    std::ranges::transform(all_keys(), std::back_inserter(descriptions), &Key::description);
    return descriptions;
  }();
  return kDescriptions;
}

const Key* find_key(std::string_view table, std::string_view name) {
  const std::span<const Key> keys = all_keys();
  const auto it = std::ranges::find_if(keys, [&](const Key& key) {
    const std::string_view path = key.description.path;
    return path.size() == table.size() + 1 + name.size() && path.starts_with(table) && path.ends_with(name) &&
           path[table.size()] == '.';
  });
  return it == keys.end() ? nullptr : &*it;
}

bool is_table(std::string_view table) {
  return std::ranges::any_of(all_keys(), [&](const Key& key) { return table_of(key) == table; });
}

std::string nearest_key(std::string_view table, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Key& key : all_keys())
    if (table_of(key) == table) names.push_back(key.description.path.substr(table.size() + 1));
  return did_you_mean(name, names);
}

std::string nearest_table(std::string_view name) { return did_you_mean(name, all_keys(), table_of); }

}  // namespace uroce::engine
