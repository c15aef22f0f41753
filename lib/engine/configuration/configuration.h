#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/idle_limits.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "copy/kind.h"
#include "faults/rule.h"
#include "port/specification.h"
#include "qp/congestion/options.h"
#include "wire/frame.h"

namespace uroce::engine {

/// One IP address with its prefix length, and the VLAN that it lives in.
struct InterfaceAddress {
  Gid address;              // IPv4 as ::ffff:a.b.c.d
  uint8_t prefix_bits = 0;  // of the IPv4 or IPv6 address: 0..32 or 0..128
  uint16_t vlan = 0;        // 1..4094, or 0: untagged

  [[nodiscard]] bool operator==(const InterfaceAddress&) const = default;
};

/// A neighbour whose MAC is given instead of asked for.
struct StaticNeighbour {
  Gid address;
  MacAddress mac;

  [[nodiscard]] bool operator==(const StaticNeighbour&) const = default;
};

/// The way to what is on no link of ours.
struct StaticRoute {
  Gid to;                   // without bits behind the prefix
  uint8_t prefix_bits = 0;  // of the IPv4 or IPv6 address
  Gid via;                  // a router on a link of ours

  [[nodiscard]] bool operator==(const StaticRoute&) const = default;
};

/// What ibv_alloc_mw makes when it is asked for type 2.
enum class WindowType2 : uint8_t { k2A, k2B };

struct DeviceConfiguration {
  std::string name = "uroce0";     // as ibv_devices shows it
  std::string port = "loopback0";  // "loopbackN" or DPDK devargs
  /// An interface of the kernel beside which the device stands, or empty. Then `port` is made of it, and MAC,
  /// addresses and neighbours are the kernel's.
  std::string interface = {};
  /// DPDK devargs of the interface's NIC, by whose rules frames get to us; empty, or refused: by kernel_path.
  std::string nic = {};
  port::KernelPath kernel_path = port::KernelPath::kAuto;
  std::optional<MacAddress> mac;  // default: the port's own
  std::vector<InterfaceAddress> addresses;
  std::optional<uint32_t> mtu;  // link MTU; default: what the port has
  std::vector<StaticNeighbour> neighbours;
  std::vector<StaticRoute> routes;
  std::vector<Gid> gateways;  // for all that nothing else leads to
  uint32_t vendor_part = 0;   // ibv_device_attr::vendor_part_id, by which some programs choose what they use
  WindowType2 window_type2 = WindowType2::k2B;
  std::vector<uint16_t> partition_keys = {0xFFFF};  // never empty; bit 15: full member
  wire::SourcePorts source_ports = wire::SourcePorts::kFlowLabel;
  bool mig_req = true;              // MigReq of connected queue pairs
  std::vector<std::string> dmadev;  // DMA devices that copy for its pollers: one for each, or none

  [[nodiscard]] bool operator==(const DeviceConfiguration&) const = default;
};

inline constexpr uint16_t kPollersPerDeviceMax = 16;

enum class PollerMode : uint8_t { kInline, kDedicated };

/// What a thread of ours that turns pollers does when a turn finds nothing.
enum class PollerIdle : uint8_t {
  kAuto,       // kSpin, or kYield where CPUs are too few (IdleLimits::may_keep_processors)
  kSpin,       // keeps its CPU
  kYield,      // offers its CPU to other threads, and goes on
  kInterrupt,  // sleeps until a frame, a doorbell or a timer is due
};

/// How lines of the log look.
enum class LogFormat : uint8_t { kText, kJson };

struct Configuration {
  std::vector<DeviceConfiguration> devices;
  PollerMode poller_mode = PollerMode::kInline;
  PollerIdle poller_idle = PollerIdle::kAuto;
  /// Inline: the background thread turns a poller that was left alone for this long.
  uint32_t takeover_us = IdleLimits::kTakeover.ns / microseconds(1).ns;
  std::vector<uint32_t> cores;  // dedicated: one per poller; inline: of the background thread
  uint16_t pollers_per_device = 1;
  bool cycle_clock = true;  // tell the time by the CPU's cycle counter, if it is steady
  qp::CongestionOptions congestion;
  bool follow_packets = true;        // a queue pair moves to the poller that its packets come to
  bool tail_probes = true;           // what is not answered in time by round trips goes once more
  bool selective_repeat = true;      // buffer out-of-order packets and retransmit only gaps
  std::vector<faults::Rule> faults;  // that packets meet from the opening of their device on
  copy::Kind copy_kind = copy::Kind::kAuto;
  bool hugepages = true;        // use them when there are any
  bool honour_memlock = false;  // registered memory counts against RLIMIT_MEMLOCK
  uint32_t memory_mb = 256;     // for packet buffers when a DPDK port is used
  uint64_t bus_offset = 0;      // added to every bus address
  std::vector<std::string> eal_arguments;
  std::string log_level = "warning";
  LogFormat log_format = LogFormat::kText;
  bool log_counters = false;  // when a device closes, one line with those of its counters that are not zero
};

/// The devices of this host's service, which all programs share.
Configuration default_configuration();

/// Two devices, one wire between them, in this process: what configs/embedded.toml says.
Configuration embedded_pair();

/// Reads TOML; without any [[device]] the devices are those of the default configuration. Every error names
/// `origin`, the line, and the key: unknown keys and tables, wrong types, values out of range. What is in
/// [nvmf] belongs to `uroce nvmf`, and is passed over.
Result<Configuration> parse_configuration(std::string_view toml, std::string_view origin);
Result<Configuration> read_configuration(const std::string& path);

/// One key that a configuration may have, for `--help`, the README and the parser alike. `path` is
/// "table.key"; the keys of a device are "device.key" (the first device) or "device.N.key".
struct KeyDescription {
  std::string_view path;
  std::string_view type;  // "string", "number", "true or false", "list of ...": as the command line takes it
  std::string_view help;
};
std::span<const KeyDescription> configuration_keys();

/// Sets one key as the command line gives it: lists are separated by commas, neighbours are ADDRESS=MAC. A
/// device index one past the last makes a new device. EINVAL names the key and what is wrong with the value.
Result<Configuration> apply_override(Configuration configuration, std::string_view path,
                                     std::string_view value);

/// The word for `idle` that the key poller.idle has.
std::string_view name_of(PollerIdle idle);

/// The whole configuration as TOML: parse_configuration() of it gives the same values.
std::string to_toml(const Configuration& configuration);

/// What the process was told by its environment: UROCE_CONFIG (a file) or UROCE_CONFIG_TEXT (TOML itself, set
/// by `uroce run`), else the default configuration.
Result<Configuration> configuration_from_environment();

/// With the faults of UROCE_FAULT besides, by which a test suite has all of its programs meet them: rules
/// with a semicolon between them.
Result<Configuration> with_faults_of_environment(Configuration configuration);

}  // namespace uroce::engine
