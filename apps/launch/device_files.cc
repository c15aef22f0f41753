#include "apps/launch/device_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

namespace uroce::launch {
namespace {

/// Verbs have eight bits for the index of a GID.
constexpr size_t kGidsMax = 256;

/// How many GIDs the port may ever have. The link-local one comes first. Those of a kernel's interface come
/// and go while the program runs, and the configured ones do not.
size_t gids_of(const engine::DeviceConfiguration& device) {
  return device.interface.empty() ? std::min(1 + device.addresses.size(), kGidsMax) : kGidsMax;
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

Result<DeviceFiles> device_files(const engine::Configuration& configuration) {
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
    for (size_t gid = 0; gid < gids_of(device); ++gid) {
      const std::string attributes = folder + "/ports/1/gid_attrs";
      add(fmt::format("{}/types/{}", attributes, gid), "RoCE v2\n");
      if (!device.interface.empty())
        add(fmt::format("{}/ndevs/{}", attributes, gid), device.interface + "\n");
    }
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
