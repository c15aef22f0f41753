#include "drivers/port/ethdev/link_end.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/kernel/pmd_traits.h"

namespace uroce::drivers {
namespace {

/// The file, whatever path it is named by. There may be none yet.
std::string file_of(const std::string& path) {
  std::error_code error;
  const auto file = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : file.string();
}

}  // namespace

Result<Claims> claim_end_of_link(const Devargs& devargs) {
  std::vector<Claimed> things;
  if (const auto tap = devargs.value("iface"); tap && pmd_traits(devargs.name()).iface_is_made) {
    things.push_back({"tap ", std::string(*tap), std::string(*tap)});
  }
  if (const auto memif = memif_end(devargs)) {
    const std::string end =
        "id " + memif->id + " as " + (memif->server ? "server" : "client") + " of socket ";
    things.push_back({end, memif->abstract ? "@" + memif->socket : file_of(memif->socket), memif->socket});
  }
  return claim(devargs.name(), things);
}

}  // namespace uroce::drivers
