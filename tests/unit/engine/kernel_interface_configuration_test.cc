// Devices beside the kernel, on an interface or a NIC that both have.
#include <gtest/gtest.h>

#include "engine/configuration/configuration.h"

namespace uroce::engine {
namespace {

TEST(Configuration, StandsBesideTheKernelOnAnInterface) {
  const auto read = parse_configuration("[[device]]\ninterface = \"eth0\"\naddresses = []", "f.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->devices[0].interface, "eth0");
  EXPECT_EQ(read->devices[0].port, "net_af_packet_eth0,iface=eth0");
  const auto again = parse_configuration(to_toml(*read), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->devices[0].interface, "eth0");
  EXPECT_EQ(again->devices[0].port, read->devices[0].port);
  EXPECT_EQ(again->devices[0].kernel_path, port::KernelPath::kAuto);
  const auto by_xdp = apply_override(*read, "device.0.mode", "xdp");
  ASSERT_TRUE(by_xdp) << by_xdp.error().message;
  EXPECT_EQ(parse_configuration(to_toml(*by_xdp), "again")->devices[0].kernel_path, port::KernelPath::kXdp);
  const auto option = apply_override({}, "device.0.interface", "eth1");
  ASSERT_TRUE(option) << option.error().message;
  EXPECT_EQ(option->devices[0].port, "net_af_packet_eth1,iface=eth1");
}

TEST(Configuration, StandsBesideTheKernelOnANicThatBothHave) {
  const auto read = parse_configuration(
      "[[device]]\ninterface = \"eth0\"\nnic = \"0000:3b:00.0\"\nmode = \"packet\"", "f.toml");
  ASSERT_TRUE(read) << read.error().message;
  const auto again = parse_configuration(to_toml(*read), "again");
  ASSERT_TRUE(again) << again.error().message;
  for (const Configuration& one : {*read, *again}) {
    EXPECT_EQ(one.devices[0].interface, "eth0");
    EXPECT_EQ(one.devices[0].nic, "0000:3b:00.0");
    EXPECT_EQ(one.devices[0].port, "0000:3b:00.0");
    EXPECT_EQ(one.devices[0].kernel_path, port::KernelPath::kPacket);
  }
  const std::pair<const char*, const char*> options[] = {{"device.0.interface", "eth0"},
                                                         {"device.0.nic", "0000:3b:00.0"}};
  Configuration forwards;
  Configuration backwards;
  forwards.devices.clear();
  backwards.devices.clear();
  for (size_t i = 0; i < 2; ++i) {
    forwards = *apply_override(forwards, options[i].first, options[i].second);
    backwards = *apply_override(backwards, options[1 - i].first, options[1 - i].second);
  }
  EXPECT_EQ(forwards.devices[0].port, "0000:3b:00.0");
  EXPECT_EQ(backwards.devices[0].port, "0000:3b:00.0");
}

}  // namespace
}  // namespace uroce::engine
