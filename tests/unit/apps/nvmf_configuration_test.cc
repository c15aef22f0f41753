#include <gtest/gtest.h>

#include "nvmf_target/target_configuration.h"

namespace uroce::nvmf_target {
namespace {

constexpr const char* kEverything = R"([nvmf]
cores = [0]
in_capsule_bytes = 8192
data_bytes_max = "64 KiB"
queue_entries = 64
shared_receives = false
queues_per_host = 100
pending_queues = 20
pending_queues_per_host = 3
connect_timeout_s = 2
stall_timeout_s = 30
statistics_s = 5
[[nvmf.listen]]
address = "192.0.2.1"
[[nvmf.listen]]
address = "2001:db8::1"
port = 4421
[[nvmf.subsystem]]
nqn = "nqn.2026-11.example:disks"
hosts = ["nqn.2026-11.example:host"]
[[nvmf.subsystem.namespace]]
nsid = 3
driver = "file"
path = "/tmp/x"
block_size = 4096
read_only = true
uuid = "01234567-89ab-cdef-0123-456789abcdef"
[[nvmf.subsystem.namespace]]
nsid = 4
driver = "ram"
size = "64M"
)";

TEST(TargetConfiguration, Everything_ExpectItRead) {
  const auto read = parse_target_configuration(kEverything, "f.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->transport.cores, std::vector<uint32_t>{0});
  EXPECT_EQ(read->transport.in_capsule_bytes, 8192u);
  EXPECT_EQ(read->transport.data_bytes_max, 65536u);
  EXPECT_EQ(read->transport.io_entries_max, 64u);
  EXPECT_FALSE(read->transport.shared_receives);
  EXPECT_EQ(read->transport.queues_per_host, 100u);
  EXPECT_EQ(read->transport.pending_max, 20u);
  EXPECT_EQ(read->transport.pending_per_host, 3u);
  EXPECT_EQ(read->transport.connect_s, 2u);
  EXPECT_EQ(read->transport.stall_s, 30u);
  EXPECT_EQ(read->statistics_s, 5u);
  ASSERT_EQ(read->listens.size(), 2u);
  EXPECT_EQ(read->listens[0].port, 4420);
  EXPECT_EQ(read->listens[1].port, 4421);
  ASSERT_EQ(read->subsystems.size(), 1u);
  const SubsystemConfiguration& subsystem = read->subsystems[0];
  EXPECT_EQ(subsystem.serial.size(), 16u);
  EXPECT_EQ(subsystem.hosts, std::vector<std::string>{"nqn.2026-11.example:host"});
  ASSERT_EQ(subsystem.namespaces.size(), 2u);
  EXPECT_EQ(subsystem.namespaces[0].device.path, "/tmp/x");
  EXPECT_EQ(subsystem.namespaces[0].device.block_bytes, 4096u);
  EXPECT_TRUE(subsystem.namespaces[0].device.read_only);
  EXPECT_EQ(subsystem.namespaces[0].uuid[15], 0xEF);
  EXPECT_EQ(subsystem.namespaces[0].where, "f.toml:21: nvmf.subsystem.namespace");
  EXPECT_EQ(subsystem.namespaces[1].device.size_bytes, uint64_t{64} << 20);
}

TEST(TargetConfiguration, Mistakes_ExpectFileLineAndKey) {
  struct Mistake {
    const char* line;  // in place of the last one of a subsystem
    const char* complaint;
  };
  const std::string head =
      "[nvmf]\n[[nvmf.listen]]\naddress = \"192.0.2.1\"\n[[nvmf.subsystem]]\nnqn = "
      "\"nqn.2026-11.example:disks\"\n";
  const Mistake mistakes[] = {
      {"allow_any_host = 1", "f:6: nvmf.subsystem.allow_any_host: must be true or false"},
      {"any_host = true", "f:6: nvmf.subsystem.any_host: unknown key"},
      {"hosts = [\"me\"]", "f:6: nvmf.subsystem.hosts: \"me\" is no NQN: nqn.YYYY-MM.DOMAIN:NAME"},
      {"", "f:4: nvmf.subsystem.hosts: no host may connect: name hosts, or allow_any_host = true"},
      {"allow_any_host = true\n[[nvmf.subsystem.namespace]]\nnsid = 0\ndriver = \"null\"",
       "f:8: nvmf.subsystem.namespace.nsid: must be from 1 to 1024, not 0"},
      {"allow_any_host = true\n[[nvmf.subsystem.namespace]]\nnsid = 1",
       "f:7: nvmf.subsystem.namespace.driver: is missing"},
      {"allow_any_host = true\n[[nvmf.subsystem.namespace]]\nnsid = 1\ndriver = \"null\"\nsize = \"1 MB\"",
       "f:10: nvmf.subsystem.namespace.size: must be a number of bytes, or a string like \"64M\" or \"10 "
       "GiB\""},
      {"allow_any_host = true\n[[nvmf.subsystem.namespace]]\nnsid = 1\ndriver = \"null\"\nuuid = \"12\"",
       "f:10: nvmf.subsystem.namespace.uuid: must be a string of 32 hexadecimal digits, with or without "
       "hyphens"},
      {"allow_any_host = true\n[[nvmf.listen]]\naddress = \"192.0.2.1\"",
       "f:7: nvmf.listen: the same address and port twice"},
  };
  for (const Mistake& one : mistakes) {
    SCOPED_TRACE(one.line);
    const auto read = parse_target_configuration(head + one.line + "\n", "f");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, one.complaint);
  }
}

TEST(TargetConfiguration, NoTable_ExpectItSaid) {
  const auto read = parse_target_configuration("[poller]\n", "f");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("nvmf: must be a table: [nvmf]"), std::string::npos)
      << read.error().message;
}

TEST(NvmfConfiguration, IsARegularFileOfBoundedDepth) {
  std::string deep = "[nvmf]\n";
  while (deep.size() < (1 << 20) - 16) deep += "a.";
  const auto parsed = parse_target_configuration(deep + "a = 1\n", "f");
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().message.starts_with("f:2: keys of more than 16 parts"))
      << parsed.error().message;
  for (const char* path : {"/dev/zero", "/proc/self/mem"}) {
    const auto read = read_target_configuration(path);
    ASSERT_FALSE(read);
    EXPECT_TRUE(read.error().message.starts_with(path)) << read.error().message;
  }
}

}  // namespace
}  // namespace uroce::nvmf_target
