// `uroce info -v`: the table says what the devices advertise, and no more. That the tests exist which it
// names is the business of tests/programs/uroce_cli_test.py.
#include "apps/info/capabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "client/verbs_objects.h"

namespace uroce::info {
namespace {

std::vector<Advertised> all_devices() {
  int count = 0;
  const client::DeviceList devices(ibv_get_device_list(&count));
  std::vector<Advertised> all;
  for (int i = 0; i < count; ++i) {
    const client::Context context(ibv_open_device(devices[static_cast<size_t>(i)]));
    all.push_back(ask(*context));
  }
  return all;
}

/// Takes away what the row speaks of.
void take(Advertised& from, const Capability& row) {
  char* const structure = row.place == Place::kDevice ? reinterpret_cast<char*>(&from.device)
                          : row.place == Place::kPort ? reinterpret_cast<char*>(&from.port)
                                                      : nullptr;
  if (structure != nullptr) {
    uint64_t number = 0;
    std::memcpy(&number, structure + row.offset, row.bytes);
    number &= ~row.mask;
    std::memcpy(structure + row.offset, &number, row.bytes);
  }
  if (row.place == Place::kService && row.type < 32) from.services &= ~(1u << row.type);
  if (row.place == Place::kOperation) from.operations.at(row.type) &= ~row.mask;
  if (row.place == Place::kCompletion) from.completions &= ~row.mask;
}

/// What identifies a device or tells its state, and is no capability.
void take_identity(Advertised& from) {
  ibv_device_attr& plain = from.device.orig_attr;
  EXPECT_EQ(plain.device_cap_flags, from.device.device_cap_flags_ex & UINT32_MAX);
  plain.device_cap_flags = 0;
  std::memset(plain.fw_ver, 0, sizeof(plain.fw_ver));
  plain.node_guid = plain.sys_image_guid = 0;
  plain.vendor_id = plain.vendor_part_id = plain.hw_ver = 0;
  plain.phys_port_cnt = 0;
  from.device.phys_port_cnt_ex = 0;
  ibv_port_attr& port = from.port;
  port.state = {};
  port.max_vl_num = port.active_width = port.active_speed = port.phys_state = port.link_layer = 0;
}

/// Offsets of the bytes that are not zero.
template <typename T>
std::vector<size_t> left_in(const T& structure) {
  std::vector<size_t> offsets;
  const auto* bytes = reinterpret_cast<const char*>(&structure);
  for (size_t i = 0; i < sizeof(T); ++i)
    if (bytes[i] != 0) offsets.push_back(i);
  return offsets;
}

TEST(Capabilities, EverythingAdvertisedHasARow) {
  for (Advertised& device : all_devices()) {
    take_identity(device);
    Advertised left = device;
    for (const Capability& row : capabilities())
      if (!row.absent) take(left, row);
    EXPECT_EQ(left_in(left.device), std::vector<size_t>{}) << "bytes of ibv_device_attr_ex";
    EXPECT_EQ(left_in(left.port), std::vector<size_t>{}) << "bytes of ibv_port_attr";
    EXPECT_EQ(left.services, 0u) << "types of queue pairs";
    for (size_t type = 0; type < left.operations.size(); ++type)
      EXPECT_EQ(left.operations[type], 0u) << "send_ops_flags of type " << type;
    EXPECT_EQ(left.completions, 0u) << "wc_flags";
  }
}

TEST(Capabilities, EveryRowIsAdvertised) {
  const std::vector<Advertised> devices = all_devices();
  ASSERT_FALSE(devices.empty());
  for (const Capability& row : capabilities()) {
    EXPECT_TRUE(
        std::ranges::any_of(devices, [&](const Advertised& device) { return value_of(row, device) != ""; }))
        << row.name << (row.absent ? " is there" : " is not advertised");
  }
}

TEST(Capabilities, EachHasOneRow) {
  std::set<std::string> names;
  for (const Capability& row : capabilities()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(Capabilities, WhatNoRowSpeaksOfIsNoticed) {
  Advertised device = all_devices().at(0);
  device.device.device_cap_flags_ex |= IBV_DEVICE_AUTO_PATH_MIG;
  device.services |= 1u << IBV_QPT_RAW_PACKET;
  for (const Capability& row : capabilities())
    if (!row.absent) take(device, row);
  EXPECT_EQ(device.device.device_cap_flags_ex, uint64_t{IBV_DEVICE_AUTO_PATH_MIG});
  EXPECT_EQ(device.services, 1u << IBV_QPT_RAW_PACKET);
  for (const Capability& row : capabilities())
    if (row.absent && row.place == Place::kService && row.type == IBV_QPT_RAW_PACKET) {
      device.services = 1u << IBV_QPT_RAW_PACKET;
      EXPECT_EQ(value_of(row, device), "") << "a row of what is not there";
    }
}

}  // namespace
}  // namespace uroce::info
