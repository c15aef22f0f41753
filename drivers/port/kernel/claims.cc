#include "drivers/port/kernel/claims.h"

#include <net/if.h>

#include <array>
#include <utility>

#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/pmd_traits.h"
#include "wire/address_text.h"

namespace uroce::drivers {

Result<Claims> claim(const std::string& port, const std::vector<Claimed>& things) {
  Claims claims;
  for (const auto& [what, where, shown] : things) {
    auto name = ExclusiveName::take(what + where);
    if (!name) return Error{name.error().code, port + ": " + name.error().message + " " + what + shown};
    claims.push_back(std::move(*name));
  }
  return claims;
}

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

}  // namespace uroce::drivers
