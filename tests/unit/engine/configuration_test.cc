#include "engine/configuration/configuration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "wire/address_text.h"

namespace uroce::engine {
namespace {

constexpr std::string_view kEveryKey = R"(
[[device]]
name = "left"
port = "net_memif0,role=server"
mac = "02:00:00:00:09:01"
addresses = ["198.51.100.1/24", "2001:db8::1/64@4094"]
mtu = 4200
neighbours = [{ address = "198.51.100.2", mac = "02:00:00:00:09:02" }]
partition_keys = [0xFFFF, 0x8001, 2]
source_port = "queue-pair"
mig_req = false
vendor_part = 4099
window_type2 = "2A"
routes = ["10.0.0.0/8 via 198.51.100.254", "2001:db8:8::/48 via fe80::1"]
gateway = ["198.51.100.253"]
# interface = "..." stands instead of port, mac, addresses and neighbours, and with it nic = "..."
dmadev = ["dma_skeleton0", "dma_skeleton1"]

[[device]]
port = "loopback7"

[poller]
mode = "dedicated"
idle = "interrupt"
takeover_us = 25
cores = [1, 3]
per_device = 2
cycle_clock = false
follow_packets = false

[congestion]
control = "dcqcn"
cnp_interval_us = 4
cnp_dscp = 46
line_mbps = 25000
base_us = 12
target_us = 30

[recovery]
tail_probes = false
selective = false

[faults]
rules = ["device=uroce0,loss=1%,seed=7", "delay=100us,for=2s"]
[copy]
kind = "non-temporal"

[memory]
hugepages = false
honour_memlock = true
megabytes = 512
bus_offset = 4096

[eal]
arguments = ["--log-level=lib.eal:debug", "--with \"quotes\""]

[log]
level = "debug"
format = "json"
counters = true
)";

void expect_every_key(const Configuration& c) {
  ASSERT_EQ(c.devices.size(), 2u);
  const DeviceConfiguration& left = c.devices[0];
  EXPECT_EQ(left.name, "left");
  EXPECT_EQ(left.port, "net_memif0,role=server");
  ASSERT_TRUE(left.mac.has_value());
  EXPECT_EQ(wire::to_text(*left.mac), "02:00:00:00:09:01");
  ASSERT_EQ(left.addresses.size(), 2u);
  EXPECT_EQ(wire::to_text(left.addresses[0].address), "198.51.100.1");
  EXPECT_EQ(left.addresses[0].prefix_bits, 24);
  EXPECT_EQ(wire::to_text(left.addresses[1].address), "2001:db8::1");
  EXPECT_EQ(left.addresses[1].prefix_bits, 64);
  EXPECT_EQ(left.addresses[0].vlan, 0);
  EXPECT_EQ(left.addresses[1].vlan, 4094);
  EXPECT_EQ(left.partition_keys, (std::vector<uint16_t>{0xFFFF, 0x8001, 2}));
  EXPECT_EQ(left.source_ports, wire::SourcePorts::kQueuePair);
  EXPECT_FALSE(left.mig_req);
  EXPECT_EQ(left.mtu, 4200u);
  ASSERT_EQ(left.neighbours.size(), 1u);
  EXPECT_EQ(wire::to_text(left.neighbours[0].address), "198.51.100.2");
  EXPECT_EQ(wire::to_text(left.neighbours[0].mac), "02:00:00:00:09:02");
  EXPECT_EQ(left.vendor_part, 4099u);
  EXPECT_EQ(left.window_type2, WindowType2::k2A);
  ASSERT_EQ(left.routes.size(), 2u);
  EXPECT_EQ(left.routes[0].to, Gid::from_ipv4({10, 0, 0, 0}));
  EXPECT_EQ(left.routes[0].prefix_bits, 8);
  EXPECT_EQ(left.routes[0].via, Gid::from_ipv4({198, 51, 100, 254}));
  EXPECT_EQ(left.routes[1].prefix_bits, 48);
  EXPECT_EQ(left.gateways, std::vector{Gid::from_ipv4({198, 51, 100, 253})});
  EXPECT_EQ(left.dmadev, (std::vector<std::string>{"dma_skeleton0", "dma_skeleton1"}));
  EXPECT_EQ(c.devices[1].name, "uroce1");
  EXPECT_EQ(c.devices[1].port, "loopback7");
  EXPECT_FALSE(c.devices[1].mac.has_value());
  EXPECT_FALSE(c.devices[1].mtu.has_value());
  EXPECT_EQ(c.devices[1].partition_keys, std::vector<uint16_t>{0xFFFF});
  EXPECT_EQ(c.devices[1].source_ports, wire::SourcePorts::kFlowLabel);
  EXPECT_TRUE(c.devices[1].mig_req);
  EXPECT_EQ(c.devices[1].vendor_part, 0u);
  EXPECT_EQ(c.poller_mode, PollerMode::kDedicated);
  EXPECT_EQ(c.poller_idle, PollerIdle::kInterrupt);
  EXPECT_EQ(c.takeover_us, 25u);
  EXPECT_EQ(c.cores, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(c.pollers_per_device, 2);
  EXPECT_FALSE(c.cycle_clock);
  EXPECT_FALSE(c.follow_packets);
  EXPECT_EQ(c.congestion, (qp::CongestionOptions{
                              .control = qp::CongestionControl::kDcqcn,
                              .cnp_interval_us = 4,
                              .cnp_dscp = 46,
                              .parameters = {{"line_mbps", 25000}, {"base_us", 12}, {"target_us", 30}}}));
  EXPECT_FALSE(c.tail_probes);
  EXPECT_FALSE(c.selective_repeat);
  EXPECT_EQ(faults::to_text(c.faults.at(1)), "delay=100us,for=2s");
  EXPECT_EQ(c.copy_kind, copy::Kind::kNonTemporal);
  EXPECT_FALSE(c.hugepages);
  EXPECT_TRUE(c.honour_memlock);
  EXPECT_EQ(c.memory_mb, 512u);
  EXPECT_EQ(c.bus_offset, 4096u);
  EXPECT_EQ(c.eal_arguments, (std::vector<std::string>{"--log-level=lib.eal:debug", "--with \"quotes\""}));
  EXPECT_EQ(c.log_level, "debug");
  EXPECT_EQ(c.log_format, LogFormat::kJson);
  EXPECT_TRUE(c.log_counters);
}

TEST(Configuration, ReadsEveryKey) {
  const auto configuration = parse_configuration(kEveryKey, "every.toml");
  ASSERT_TRUE(configuration) << configuration.error().message;
  expect_every_key(*configuration);
}

TEST(Configuration, SurvivesBeingWrittenOutAndReadBack) {
  const auto first = parse_configuration(kEveryKey, "every.toml");
  ASSERT_TRUE(first);
  const auto second = parse_configuration(to_toml(*first), "written");
  ASSERT_TRUE(second) << second.error().message;
  expect_every_key(*second);
}

TEST(Configuration, TablesOfPrograms_ExpectThemPassedOver) {
  const auto configuration =
      parse_configuration("[nvmf]\nanything = 1\n[[nvmf.listen]]\n[poller]\ntakeover_us = 7\n", "f");
  ASSERT_TRUE(configuration) << configuration.error().message;
  EXPECT_EQ(configuration->takeover_us, 7u);
}

TEST(Configuration, WithoutDevicesHasTheServices) {
  const auto configuration = parse_configuration("[poller]\nmode = \"dedicated\"\n", "short");
  ASSERT_TRUE(configuration);
  ASSERT_EQ(configuration->devices.size(), 1u);
  EXPECT_EQ(configuration->devices[0].port, "host");
  EXPECT_EQ(configuration->poller_mode, PollerMode::kDedicated);
}

TEST(Configuration, TakesEveryKeyFromTheCommandLineToo) {
  Result<Configuration> c = Configuration{};
  const std::pair<std::string_view, std::string_view> options[] = {
      {"device.name", "left"},
      {"device.port", "net_memif0,role=server"},
      {"device.mac", "02:00:00:00:09:01"},
      {"device.0.addresses", "198.51.100.1/24,2001:db8::1/64@4094"},
      {"device.0.mtu", "4200"},
      {"device.0.neighbours", "198.51.100.2=02:00:00:00:09:02"},
      {"device.0.partition_keys", "0xFFFF,0x8001,2"},
      {"device.0.source_port", "queue-pair"},
      {"device.0.mig_req", "false"},
      {"device.0.vendor_part", "4099"},
      {"device.0.window_type2", "2A"},
      {"device.0.routes", "10.0.0.0/8 via 198.51.100.254,2001:db8:8::/48 via fe80::1"},
      {"device.0.gateway", "198.51.100.253"},
      {"device.0.dmadev", "dma_skeleton0,dma_skeleton1"},
      {"device.1.port", "loopback7"},
      {"poller.mode", "dedicated"},
      {"poller.idle", "interrupt"},
      {"poller.takeover_us", "25"},
      {"poller.cores", "1,3"},
      {"poller.per_device", "2"},
      {"poller.cycle_clock", "false"},
      {"poller.follow_packets", "false"},
      {"congestion.control", "dcqcn"},
      {"congestion.cnp_interval_us", "4"},
      {"congestion.cnp_dscp", "46"},
      {"congestion.line_mbps", "25000"},
      {"congestion.base_us", "12"},
      {"congestion.target_us", "30"},
      {"recovery.tail_probes", "false"},
      {"recovery.selective", "false"},
      {"faults.rules", "device=uroce0,loss=1%,seed=7;delay=100us,for=2s"},
      {"copy.kind", "non-temporal"},
      {"memory.hugepages", "false"},
      {"memory.honour_memlock", "true"},
      {"memory.megabytes", "512"},
      {"memory.bus_offset", "4096"},
      {"eal.arguments", "--log-level=lib.eal:debug,--with \"quotes\""},
      {"log.level", "debug"},
      {"log.format", "json"},
      {"log.counters", "true"},
  };
  for (const auto& [path, value] : options) {
    c = apply_override(std::move(*c), path, value);
    ASSERT_TRUE(c) << path << ": " << c.error().message;
  }
  expect_every_key(*c);
}

TEST(Configuration, DescribesEveryKeyItTakes) {
  EXPECT_EQ(configuration_keys().size(), 42u);
  for (const KeyDescription& key : configuration_keys()) {
    EXPECT_FALSE(key.type.empty());
    EXPECT_FALSE(key.help.empty());
    EXPECT_NE(kEveryKey.find(key.path.substr(key.path.find('.') + 1)), std::string_view::npos) << key.path;
  }
}

/// One row of qp/congestion/algorithms.h makes the choice and the keys of an algorithm, with their limits.
TEST(Configuration, AlgorithmsOfCongestion_ExpectTheirKeysFromTheirTable) {
  const auto description_of = [](std::string_view path) {
    const auto keys = configuration_keys();
    const auto it = std::ranges::find(keys, path, &KeyDescription::path);
    return it == keys.end() ? KeyDescription{} : *it;
  };
  EXPECT_EQ(description_of("congestion.control").type, "none, dcqcn or swift");
  for (size_t i = 0; i < qp::kCongestionParameters.size(); ++i) {
    const qp::NamedParameter& parameter = qp::kCongestionParameters[i];
    const std::string path = "congestion." + std::string(parameter.key);
    const std::string help(description_of(path).help);
    EXPECT_TRUE(help.starts_with(std::string(parameter.algorithm) + ": " + std::string(parameter.help)))
        << help;
    const auto set = [&](int64_t value) { return apply_override({}, path, std::to_string(value)); };
    EXPECT_EQ(Configuration{}.congestion.parameters.at(i), parameter.initial);
    EXPECT_EQ(set(parameter.most)->congestion.parameters.at(i), parameter.most);
    EXPECT_EQ(set(parameter.least)->congestion.parameters.at(i), parameter.least);
    const auto refused = set(int64_t{parameter.most} + 1);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("must be from"), std::string::npos) << refused.error().message;
    EXPECT_FALSE(set(int64_t{parameter.least} - 1));
  }
}

TEST(Configuration, ConstantsOfCongestionAlgorithms_ExpectThemToBeNoKeys) {
  const auto in_a_file = parse_configuration("[congestion]\ngain_shift = 8\n", "site.toml");
  ASSERT_FALSE(in_a_file);
  EXPECT_EQ(in_a_file.error().message, "site.toml:2: congestion.gain_shift: unknown key");
  const auto as_an_option = apply_override({}, "congestion.beta_percent", "80");
  ASSERT_FALSE(as_an_option);
  EXPECT_EQ(as_an_option.error().message, "congestion.beta_percent: unknown key");
}

class Environment : public testing::Test {
 protected:
  ~Environment() override {
    unsetenv("UROCE_CONFIG");
    unsetenv("UROCE_CONFIG_TEXT");
  }
};

TEST_F(Environment, NamesAFileOrGivesTheTextOrNeither) {
  unsetenv("UROCE_CONFIG");
  ASSERT_EQ(configuration_from_environment()->devices.size(), 1u);
  EXPECT_EQ(configuration_from_environment()->devices[0].port, "host") << "the service's, all of them";

  const auto path =
      std::filesystem::temp_directory_path() / ("uroce-configuration-" + std::to_string(getpid()));
  std::ofstream(path) << "[[device]]\nname = \"from_file\"\n";
  setenv("UROCE_CONFIG", path.c_str(), 1);
  auto from_file = configuration_from_environment();
  ASSERT_TRUE(from_file) << from_file.error().message;
  EXPECT_EQ(from_file->devices.at(0).name, "from_file");

  setenv("UROCE_CONFIG_TEXT", "[[device]]\nname = \"from_text\"\n", 1);
  EXPECT_EQ(configuration_from_environment()->devices.at(0).name, "from_text");

  unsetenv("UROCE_CONFIG_TEXT");
  std::filesystem::remove(path);
  const auto missing = configuration_from_environment();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_EQ(missing.error().message, path.string() + ": No such file or directory");
}

}  // namespace
}  // namespace uroce::engine
