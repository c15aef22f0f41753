#include "drivers/port/ethdev/claims.h"

#include <net/if.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/ethdev/pmd_traits.h"
#include "wire/address_text.h"

namespace uroce::drivers {
namespace {

/// `where` is unlike any other in this namespace, `shown` is what people call it.
struct Claimed {
  std::string what;
  std::string where;
  std::string shown;
};

/// The file, whatever path it is named by. There may be none yet.
std::string file_of(const std::string& path) {
  std::error_code error;
  const auto file = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : file.string();
}

Result<Claims> claim(const std::string& port, const std::vector<Claimed>& things) {
  Claims claims;
  for (const auto& [what, where, shown] : things) {
    auto name = ExclusiveName::take(what + where);
    if (!name) return Error{name.error().code, port + ": " + name.error().message + " " + what + shown};
    claims.push_back(std::move(*name));
  }
  return claims;
}

}  // namespace

Result<Claims> claim_addresses(const port::Specification& specification, unsigned interface_index) {
  const std::string port = Devargs(specification.devargs).name();
  std::array<char, IF_NAMESIZE> name{};
  if_indextoname(interface_index, name.data());
  const std::string where = " on interface " + std::to_string(interface_index);
  const std::string shown = std::string(" on interface ") + name.data();
  std::vector<Claimed> things;
  for (const Gid& address : specification.addresses) things.push_back({wire::to_text(address), where, shown});
  if (specification.mac) {
    things.push_back({"MAC " + wire::to_text(*specification.mac), where, shown});
  } else if (things.empty() && !pmd_traits(port).mac_is_far_ends) {
    things.push_back({"the MAC", where, shown});
  }
  return claim(port, things);
}

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
