#include "drivers/port/kernel/carrier.h"

#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/pmd_traits.h"

namespace uroce::drivers {

std::string interface_of(std::string_view devargs) {
  constexpr std::string_view kPacketSockets = "packet";  // see drivers/port/packet
  const Devargs all(devargs);
  const auto interface = all.value("iface");
  const bool goes_through = interface && (all.name().starts_with(kPacketSockets) ||
                                          pmd_traits(all.name()).limit == FrameLimit::kInterface);
  return goes_through ? std::string(*interface) : std::string();
}

}  // namespace uroce::drivers
