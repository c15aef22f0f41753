#include "drivers/pci/pci_device.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "drivers/port/ethdev/nic_facts.h"
#include "temporary_folder.h"

namespace uroce::drivers {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNic = "0000:3b:00.1";

/// The kernel's folders as a test wants them.
class PciDevice : public ::testing::Test {
 protected:
  PciDevice() { fs::create_directories(device()); }

  [[nodiscard]] fs::path device() const { return folders.devices / kNic; }
  void held_by(const std::string& driver) const {
    fs::create_symlink("../../../bus/pci/drivers/" + driver, device() / "driver");
  }
  void in_group(const std::string& group) const {
    fs::create_symlink("../../../kernel/iommu_groups/" + group, device() / "iommu_group");
  }
  void file(const fs::path& path, const std::string& text = "") const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void expect_refusal(int code, const std::vector<std::string>& words) const {
    const Status status = may_have_pci_device(kNic, folders);
    ASSERT_FALSE(status);
    const std::string& message = status.error().message;
    EXPECT_EQ(status.error().code, code) << message;
    EXPECT_TRUE(message.starts_with(std::string(kNic) + ": ")) << message;
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }

  testing::TemporaryFolder folder;
  PciPaths folders{.devices = fs::path(folder.path()) / "devices", .files = fs::path(folder.path()) / "dev"};
};

TEST(PciAddress, IsThatOfADeviceWhateverItsArguments) {
  EXPECT_EQ(pci_address("0000:3B:00.1,some=argument"), kNic);
  EXPECT_EQ(pci_address("3b:00.1"), kNic);
  for (const char* other : {"net_memif0", "0000:3b:00.8", "0000:3b:00", "", "0000:3b:00.1x", "g0:00.0"})
    EXPECT_EQ(pci_address(other), std::nullopt) << other;
}

TEST_F(PciDevice, OfVfioOrUioOrOfASharedDriverIsToBeHad) {
  file(folders.files / "vfio/vfio");
  file(folders.files / "vfio/7");
  in_group("7");
  for (const char* driver : {"vfio-pci", "mlx5_vfio_pci", "uio_pci_generic", "mlx5_core"}) {
    held_by(driver);
    EXPECT_TRUE(may_have_pci_device(kNic, folders)) << driver;
    fs::remove(device() / "driver");
  }
  EXPECT_TRUE(may_have_pci_device("net_memif0,role=server", folders));
}

TEST_F(PciDevice, WhoseDriverNeedsOtherVerbsIsForTheService) {
  held_by("mlx5_core");
  EXPECT_TRUE(may_have_pci_device(kNic, folders));
  folders.our_verbs = true;
  expect_refusal(ENOTSUP, {"rdma-core's libibverbs.so.1", "uroce serve --port 0000:3b:00.1"});
  fs::create_directories(device() / "net/eth6");
  expect_refusal(ENOTSUP, {"interface = \"eth6\""});
  fs::remove(device() / "driver");
  held_by("uio_pci_generic");
  EXPECT_TRUE(may_have_pci_device(kNic, folders));
}

TEST_F(PciDevice, WithoutIommuIsAnotherFile) {
  held_by("vfio-pci");
  in_group("7");
  file(folders.files / "vfio/vfio");
  expect_refusal(ENOENT, {(folders.files / "vfio/7").string()});
  file(folders.files / "vfio/noiommu-7");
  EXPECT_TRUE(may_have_pci_device(kNic, folders));
}

TEST_F(PciDevice, OfTheKernelIsNamedWithItsInterface) {
  held_by("virtio-pci");
  expect_refusal(EBUSY, {"virtio-pci holds it; give it", "--bind=vfio-pci 0000:3b:00.1"});
  fs::create_directories(device() / "virtio3/net/eth5");
  expect_refusal(EBUSY, {"interface = \"eth5\"", "--bind=vfio-pci 0000:3b:00.1"});
  fs::create_directories(device() / "net/eth6");
  expect_refusal(EBUSY, {"interface = \"eth6\""});
}

TEST_F(PciDevice, WithoutDriverIsToldWhatWouldHoldIt) {
  expect_refusal(ENODEV, {"without an IOMMU", "uio_pci_generic"});
  in_group("7");
  expect_refusal(ENODEV, {"no driver holds it", "--bind=vfio-pci 0000:3b:00.1"});
  fs::remove_all(device());
  expect_refusal(ENODEV, {"no such PCI device"});
}

TEST_F(PciDevice, IsANicUnlessTheKernelKnowsBetter) {
  EXPECT_TRUE(may_be_network_controller(kNic, folders));
  file(device() / "class", "0x010601\n");
  EXPECT_FALSE(may_be_network_controller(kNic, folders));
  file(device() / "class", "0x020000\n");
  EXPECT_TRUE(may_be_network_controller(kNic, folders));
  EXPECT_TRUE(may_be_network_controller("net_tap0", folders));
}

TEST(NicServices, FramesAreSpreadByTheBestHashThereIs) {
  rte_eth_dev_info info{};
  EXPECT_EQ(chosen_services(info, 2).hashes, 0u);
  EXPECT_TRUE(tell_services(info, {}, 1).empty());
  info.flow_type_rss_offloads = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP;
  EXPECT_EQ(chosen_services(info, 1).hashes, 0u);
  EXPECT_EQ(chosen_services(info, 2).hashes, RTE_ETH_RSS_IPV4);
  EXPECT_NE(tell_services(info, chosen_services(info, 2), 2).at(0).find("by addresses"), std::string::npos);
  info.flow_type_rss_offloads |= RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
  EXPECT_EQ(chosen_services(info, 2).hashes, RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP);
  EXPECT_NE(tell_services(info, chosen_services(info, 2), 2).at(0).find("2 queues by UDP ports"),
            std::string::npos);
}

TEST(NicServices, WhatIsNotUsedIsToldOnceAndWhy) {
  rte_eth_dev_info info{};
  info.rx_offload_capa = RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_TIMESTAMP;
  info.tx_offload_capa =
      RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_TSO;
  const NicServices used = chosen_services(info, 1);
  EXPECT_EQ(used.sending, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
  const std::vector<std::string> told = tell_services(info, used, 1);
  ASSERT_EQ(told.size(), 5u);
  EXPECT_EQ(told[0], "used: MBUF_FAST_FREE");
  const std::pair<const char*, const char*> expected[] = {{"sum of a header", "sending IPV4_CKSUM"},
                                                          {"the tag", "receiving VLAN_STRIP"},
                                                          {"CPU's clock", "receiving TIMESTAMP"},
                                                          {"no use", "sending TCP_TSO"}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_NE(told[i + 1].find(expected[i].first), std::string::npos) << told[i + 1];
    EXPECT_TRUE(told[i + 1].starts_with(std::string("not used: ") + expected[i].second)) << told[i + 1];
  }
}

TEST(NicBuffer, TakesAFrameInOnePiece) {
  EXPECT_EQ(nic_buffer_bytes("net_e1000_em", 1518, 256), 2048u);
  EXPECT_EQ(nic_buffer_bytes("net_e1000_em", 4218, 256), 8192u);
  EXPECT_EQ(nic_buffer_bytes("net_ixgbe", 4218, 1024), 5120u);
  EXPECT_EQ(nic_buffer_bytes("net_vmxnet3", 594, 1646), 2048u);
  EXPECT_EQ(nic_buffer_bytes("net_virtio", 1024, 64), 1024u);
}

}  // namespace
}  // namespace uroce::drivers
