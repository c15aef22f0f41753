#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "engine/configuration/configuration.h"

namespace uroce::engine {
namespace {

struct Mistake {
  std::string_view text;
  std::string_view error;
};

class ConfigurationMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ConfigurationMistake, IsNamedWithItsLineAndKey) {
  const auto configuration = parse_configuration(GetParam().text, "f.toml");
  ASSERT_FALSE(configuration);
  EXPECT_EQ(configuration.error().code, EINVAL);
  const std::string& message = configuration.error().message;
  EXPECT_TRUE(message.starts_with(GetParam().error)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// A file may be another user's: what it says is shown, and moves no cursor.
TEST(ConfigurationMistakes, NamesOfForeignBytes_ExpectThemEscaped) {
  const auto message = [](std::string_view text) {
    return parse_configuration(text, "f.toml").error().message;
  };
  EXPECT_EQ(message("\"\\u001b[31mred\\n\" = 1\n"), R"(f.toml:1: \x1b[31mred\x0a: unknown table or key)");
  EXPECT_EQ(message("[poller]\n\"\\u001b[2J\\u009b\" = 1\n"),
            R"(f.toml:2: poller.\x1b[2J\xc2\x9b: unknown key)");
}

INSTANTIATE_TEST_SUITE_P(
    All, ConfigurationMistake,
    testing::Values(
        Mistake{"[poller]\nmode = ", "f.toml:2: "},
        Mistake{"\n[pollers]\n", "f.toml:2: pollers: unknown table or key (did you mean poller?)"},
        Mistake{"mode = 1", "f.toml:1: mode: unknown table or key"},
        Mistake{"[poller]\nspeed = 1", "f.toml:2: poller.speed: unknown key"},
        Mistake{"[poller]\nmdoe = 1", "f.toml:2: poller.mdoe: unknown key (did you mean mode?)"},
        Mistake{"poller = 1", "f.toml:1: poller: must be a table"},
        Mistake{"[device]\nname = \"a\"", "f.toml:1: device: must be a list of tables"},
        Mistake{"device = [1]", "f.toml:1: device: must be a list of tables"},
        Mistake{"[poller]\nmode = \"fast\"",
                "f.toml:2: poller.mode: must be one of \"inline\", \"dedicated\""},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24@4095\"]",
                "f.toml:2: device.addresses: the VLAN of \"192.0.2.1/24@4095\" must be from 1 to 4094"},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24\", \"192.0.2.1/16@7\"]",
                "f.toml:2: device.addresses: \"192.0.2.1\" is given twice"},
        Mistake{"[[device]]\npartition_keys = []",
                "f.toml:2: device.partition_keys: must have a partition key"},
        Mistake{"[[device]]\npartition_keys = [0x8000]",
                "f.toml:2: device.partition_keys: 0x8000 is no partition"},
        Mistake{"[[device]]\npartition_keys = [0x10000]",
                "f.toml:2: device.partition_keys: must be from 1 to 65535, not 65536"},
        Mistake{"[[device]]\nsource_port = \"random\"",
                "f.toml:2: device.source_port: must be one of \"flow-label\", \"queue-pair\""},
        Mistake{"[[device]]\nwindow_type2 = \"1\"",
                "f.toml:2: device.window_type2: must be one of \"2A\", \"2B\""},
        Mistake{"[[device]]\ninterface = \"eth0/1\"",
                "f.toml:2: device.interface: must be the name of an interface"},
        Mistake{"[[device]]\ninterface = \"a-name-of-sixteen\"",
                "f.toml:2: device.interface: must not be longer than 15 characters"},
        Mistake{"[[device]]\ninterface = \"eth0\"\nport = \"loopback0\"",
                "f.toml:3: device.port: does not go together with an interface"},
        Mistake{"[[device]]\nport = \"loopback0\"\nmode = \"xdp\"",
                "f.toml:3: device.mode: does not go together with a port of its own"},
        Mistake{"[[device]]\nport = \"loopback0\"\nnic = \"0000:3b:00.0\"",
                "f.toml:3: device.nic: does not go together with a port of its own"},
        Mistake{"[[device]]\ninterface = \"eth0\"\nmode = \"fast\"",
                "f.toml:3: device.mode: must be one of \"auto\", \"xdp\", \"packet\""},
        Mistake{"[[device]]\ninterface = \"eth0\"\nmac = \"02:00:00:00:00:01\"",
                "f.toml:3: device.mac: does not go together with an interface"},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24\"]\ninterface = \"eth0\"",
                "f.toml:2: device.addresses: does not go together with an interface"},
        Mistake{"[[device]]\ninterface = \"eth0\"\n[[device]]\ninterface = \"eth0\"",
                "f.toml:3: device.port: two devices on port net_af_packet_eth0,iface=eth0"},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24\"]\ngateway = \"198.51.100.1\"",
                "f.toml:3: device.gateway: router 198.51.100.1 is in no network of an address of ours"},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24\"]\ngateway = \"192.0.2.1\"",
                "f.toml:3: device.gateway: router 192.0.2.1 is in no network of an address of ours"},
        Mistake{"[[device]]\ngateway = [\"fe80::1\", \"fe80::2\"]",
                "f.toml:2: device.gateway: must have one router of each family at most"},
        Mistake{"[[device]]\ngateway = [\"here\"]", "f.toml:2: device.gateway: \"here\" is not the address"},
        Mistake{"[[device]]\nroutes = [\"10.0.0.0/8\"]", "f.toml:2: device.routes: must be a list of routes"},
        Mistake{"[[device]]\naddresses = [\"192.0.2.1/24\"]\nroutes = [\"10.0.0.0/8 via 203.0.113.9\"]",
                "f.toml:3: device.routes: router 203.0.113.9 is in no network of an address of ours"},
        Mistake{"[[device]]\nroutes = [\"10.0.0.1/8 via 192.0.2.1\"]",
                "f.toml:2: device.routes: \"10.0.0.1/8\" has bits behind its prefix"},
        Mistake{"[[device]]\nroutes = [\"10.0.0.0/8 via fe80::1\"]",
                "f.toml:2: device.routes: \"10.0.0.0/8 via fe80::1\" is of two families"},
        Mistake{"[[device]]\ndmadev = \"dma_skeleton0\"", "f.toml:2: device.dmadev: must be a list"},
        Mistake{"[[device]]\ndmadev = [\"\"]", "f.toml:2: device.dmadev: must not be empty"},
        Mistake{"[poller]\nmode = 3", "f.toml:2: poller.mode: must be one of"},
        Mistake{"[poller]\ntakeover_us = 0",
                "f.toml:2: poller.takeover_us: must be from 1 to 1000000, not 0"},
        Mistake{"[poller]\ntakeover_us = \"50\"", "f.toml:2: poller.takeover_us: must be an integer"},
        Mistake{"[poller]\ncores = 1", "f.toml:2: poller.cores: must be a list"},
        Mistake{"[poller]\ncores = [-1]", "f.toml:2: poller.cores: must be from 0 to"},
        Mistake{"[poller]\nper_device = 65", "f.toml:2: poller.per_device: must be from 1 to 16, not 65"},
        Mistake{"[copy]\nkind = \"slow\"", "f.toml:2: copy.kind: must be one of"},
        Mistake{"[memory]\nhugepages = 1", "f.toml:2: memory.hugepages: must be true or false"},
        Mistake{"[memory]\nmegabytes = 1", "f.toml:2: memory.megabytes: must be from 32"},
        Mistake{"[eal]\narguments = [1]", "f.toml:2: eal.arguments: must be a string"},
        Mistake{"[log]\nformat = \"xml\"", "f.toml:2: log.format: must be one of"},
        Mistake{"[log]\nlevel = \"loud\"", "f.toml:2: log.level: must be one of"},
        Mistake{"[[device]]\nspeed = 1", "f.toml:2: device.speed: unknown key"},
        Mistake{"[[device]]\nname = \"\"", "f.toml:2: device.name: must not be empty"},
        Mistake{"[[device]]\nname = 5", "f.toml:2: device.name: must be a string"},
        Mistake{"[[device]]\nmac = \"02:00\"", "f.toml:2: device.mac: must be a MAC address"},
        Mistake{"[[device]]\nmac = \"01:00:00:00:00:01\"",
                "f.toml:2: device.mac: must not be a group address"},
        Mistake{"[[device]]\naddresses = [\"10.0.0.1\"]",
                "f.toml:2: device.addresses: \"10.0.0.1\" is not an address"},
        Mistake{"[[device]]\naddresses = [\"10.0.0/8\"]", "f.toml:2: device.addresses: \"10.0.0/8\" is not"},
        Mistake{"[[device]]\naddresses = [\"10.0.0.1/33\"]",
                "f.toml:2: device.addresses: the prefix length of"},
        Mistake{"[[device]]\naddresses = [\"fe80::1/129\"]",
                "f.toml:2: device.addresses: the prefix length of"},
        Mistake{"[[device]]\nmtu = 100", "f.toml:2: device.mtu: must be from 576 to 9216, not 100"},
        Mistake{"[[device]]\nneighbours = [{ address = \"10.0.0.1\" }]",
                "f.toml:2: device.neighbours: must be a list"},
        Mistake{"[[device]]\nneighbours = [{ address = \"x\", mac = \"02:00:00:00:00:01\" }]",
                "f.toml:2: device.neighbours: address must be"},
        Mistake{"[[device]]\nneighbours = [{ address = \"10.0.0.1\", mac = \"x\" }]",
                "f.toml:2: device.neighbours: mac must be"},
        Mistake{"[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"",
                "f.toml:3: device.name: two devices called a"},
        Mistake{"[[device]]\nport = \"p\"\n[[device]]\nport = \"p\"",
                "f.toml:3: device.port: two devices on port p"},
        // Of two mistakes the one further up is told, whatever the names of the tables.
        Mistake{"[poller]\nx = 1\n[copy]\ny = 2", "f.toml:2: poller.x: unknown key"}));

TEST(ConfigurationMistakes, ExpectAWrongOptionNamed) {
  const std::pair<std::string_view, std::string_view> wrong[] = {
      {"poller", ""},
      {"poller.speed", "1"},
      {"poller.mode", "fast"},
      {"device.7.port", "x"},
      {"device.x.port", "x"},
      {"device.0", "x"},
      {"poller.takeover_us", "5us"},
      {"memory.hugepages", "yes"},
      {"device.neighbours", "1.2.3.4"},
      {"", ""},
  };
  for (const auto& [path, value] : wrong) {
    const auto result = apply_override(embedded_pair(), path, value);
    ASSERT_FALSE(result) << path;
    EXPECT_EQ(result.error().code, EINVAL);
    EXPECT_TRUE(result.error().message.starts_with(std::string(path) + ": ")) << result.error().message;
  }
}

}  // namespace
}  // namespace uroce::engine
