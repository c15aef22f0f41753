// The node of a device is that of /dev/null: an ordinary user cannot make nodes, and a process that opens it
// must not get anything. Cost: programs that expect the kernel's ABI get ENOTTY.
// Only attributes that never change are shown; states and GIDs are asked of the verbs. Cost: programs that
// read these from sysfs find nothing.
#include "apps/launch/device_files.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "engine/device/gid_interface.h"

namespace uroce::launch {
namespace {

/// Verbs have eight bits for the index of a GID.
constexpr size_t kGidsMax = 256;

/// How many GIDs the port may ever have. The link-local one comes first. Those of a kernel's interface and of
/// a service come and go while the program runs, and the configured ones do not.
size_t gids_of(const engine::DeviceNetwork& network) {
  return network.changes ? kGidsMax : std::min(1 + network.addresses.size(), kGidsMax);
}

std::string interface_for(const Gid& gid) {
  std::array<char, IF_NAMESIZE> name{};
  if_indextoname(engine::interface_for(gid), name.data());
  return name.data();
}

/// The interface of each GID, as ibv_query_gid_ex says it; of one that is still to come that of the last.
std::vector<std::string> interfaces_of(const engine::DeviceNetwork& network) {
  std::vector<std::string> interfaces(gids_of(network), network.interface);
  if (!network.interface.empty()) return interfaces;
  const Gid link_local{{0xFE, 0x80}};
  interfaces[0] = interface_for(link_local);
  for (size_t i = 1; i < interfaces.size(); ++i)
    interfaces[i] =
        i <= network.addresses.size() ? interface_for(network.addresses[i - 1]) : interfaces[i - 1];
  return interfaces;
}

bool can_be_a_file(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

bool is_device(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISCHR(found.st_mode) && access(path.c_str(), R_OK | W_OK) == 0;
}

bool has_text(const TextFile& file) {
  std::ifstream in("/sys/class/" + file.path);
  return in && std::string(std::istreambuf_iterator<char>(in), {}) == file.text;
}

}  // namespace

Result<DeviceFiles> device_files(const engine::Configuration& configuration,
                                 const std::vector<engine::DeviceNetwork>& networks) {
  DeviceFiles files{.attributes = {{"infiniband_verbs/abi_version", "6\n"}}, .nodes = {"rdma_cm"}};
  for (size_t i = 0; i < configuration.devices.size(); ++i) {
    const engine::DeviceConfiguration& device = configuration.devices[i];
    if (!can_be_a_file(device.name))
      return Error{EINVAL, fmt::format("no file can be called '{}'", device.name)};
    const auto add = [&files](std::string path, std::string text) {
      files.attributes.push_back({std::move(path), std::move(text)});
    };
    const std::string folder = "infiniband/" + device.name;
    add(folder + "/node_type", "1: CA\n");
    add(folder + "/ports/1/link_layer", "Ethernet\n");
    const std::vector<std::string> interfaces = interfaces_of(networks.at(i));
    const std::string attributes = folder + "/ports/1/gid_attrs";
    for (size_t gid = 0; gid < interfaces.size(); ++gid)
      add(fmt::format("{}/types/{}", attributes, gid), "RoCE v2\n");
    for (size_t gid = 0; gid < interfaces.size(); ++gid)
      add(fmt::format("{}/ndevs/{}", attributes, gid), interfaces[gid] + "\n");
    add(fmt::format("infiniband_verbs/uverbs{}/ibdev", i), device.name + "\n");
    files.nodes.push_back(fmt::format("uverbs{}", i));
  }
  return files;
}

bool are_present(const DeviceFiles& files) {
  return std::ranges::all_of(files.attributes, has_text) &&
         std::ranges::all_of(files.nodes,
                             [](const std::string& node) { return is_device("/dev/infiniband/" + node); });
}

}  // namespace uroce::launch
