#include "client/verbs_device.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "client/failure.h"

namespace uroce::client {
namespace {

struct Listing {
  DeviceList list;
  size_t count = 0;
};

Listing list_devices() {
  int count = 0;
  errno = 0;
  DeviceList list(ibv_get_device_list(&count));
  if (!list) throw failed("ibv_get_device_list", errno);
  if (count == 0) throw Failure("there is no verbs device");
  return {std::move(list), static_cast<size_t>(count)};
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(kMapped.begin(), kMapped.end(), gid.raw);
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xFE && (gid.raw[1] & 0xC0) == 0x80; }

// The higher, the likelier that the peer reaches it: an IPv4 address, then a routable IPv6 address, over RoCE
// v2.
int rank_of(const ibv_gid_entry& entry) {
  const int version = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 10 : 0;
  return version + (is_ipv4(entry.gid) ? 3 : is_link_local(entry.gid) ? 1 : 2);
}

void choose_gid(VerbsDevice& device, std::optional<uint32_t> wanted) {
  if (wanted) {
    device.gid_index = *wanted;
    if (ibv_query_gid(device.context.get(), device.port, static_cast<int>(*wanted), &device.gid) != 0) {
      throw Failure(
          fmt::format("--gid-index {}: {} port {} has no such GID", *wanted, device.name, device.port));
    }
    return;
  }
  int best = -1;
  for (uint32_t index = 0; index < static_cast<uint32_t>(device.port_attributes.gid_tbl_len); ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(device.context.get(), device.port, index, &entry, 0) != 0) continue;
    if (rank_of(entry) <= best) continue;
    best = rank_of(entry);
    device.gid_index = index;
    device.gid = entry.gid;
  }
  if (best < 0) throw Failure(fmt::format("{} port {} has no GID", device.name, device.port));
}

}  // namespace

std::vector<std::string> device_names() {
  const Listing devices = list_devices();
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.count; ++i) names.emplace_back(ibv_get_device_name(devices.list[i]));
  return names;
}

VerbsDevice VerbsDevice::open(const DeviceChoice& choice) {
  const Listing devices = list_devices();
  ibv_device* chosen = nullptr;
  std::string known;
  for (size_t i = 0; i < devices.count; ++i) {
    const std::string name = ibv_get_device_name(devices.list[i]);
    known += (known.empty() ? "" : ", ") + name;
    if (chosen == nullptr && (choice.name.empty() || choice.name == name)) chosen = devices.list[i];
  }
  if (chosen == nullptr)
    throw Failure(fmt::format("device '{}' does not exist (there are: {})", choice.name, known));

  VerbsDevice device;
  device.name = ibv_get_device_name(chosen);
  device.port = choice.port;
  device.context.reset(ibv_open_device(chosen));
  if (!device.context) throw failed("cannot open device " + device.name, errno);
  if (const int error = ibv_query_device(device.context.get(), &device.limits)) {
    throw failed("ibv_query_device of " + device.name, error);
  }
  device.query_port();
  choose_gid(device, choice.gid_index);
  return device;
}

void VerbsDevice::wait_until_active() {
  constexpr std::chrono::seconds kLimit{10};
  constexpr std::chrono::milliseconds kPause{5};
  const auto start = std::chrono::steady_clock::now();
  while (port_attributes.state != IBV_PORT_ACTIVE) {
    throw_if_interrupted();
    if (std::chrono::steady_clock::now() - start > kLimit) {
      throw Failure(fmt::format("{} port {} is still {} after {} s", name, port,
                                ibv_port_state_str(port_attributes.state), kLimit.count()));
    }
    std::this_thread::sleep_for(kPause);
    query_port();
  }
}

void VerbsDevice::query_port() {
  if (const int error = ibv_query_port(context.get(), port, &port_attributes)) {
    throw failed(fmt::format("ibv_query_port of {} port {}", name, port), error);
  }
}

std::string text_of(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(gid)) {
    inet_ntop(AF_INET, gid.raw + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  }
  return text.data();
}

}  // namespace uroce::client
