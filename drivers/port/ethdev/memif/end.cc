#include "drivers/port/ethdev/memif/end.h"

namespace uroce::drivers {

std::optional<MemifEnd> memif_end(const Devargs& devargs) {
  if (!devargs.name().starts_with("net_memif")) return std::nullopt;
  const auto role = devargs.value("role");
  const auto number = devargs.number("id");
  return MemifEnd{.server = role == "server" || role == "master",
                  .id = number ? std::to_string(*number) : std::string(devargs.value("id").value_or("0")),
                  .socket = std::string(devargs.value("socket").value_or("/run/memif.sock")),
                  .abstract = devargs.value("socket-abstract").value_or("no") != "no"};
}

}  // namespace uroce::drivers
