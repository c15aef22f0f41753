#include "joined_ports.h"

#include "open_pair.h"
#include "temporary_folder.h"

namespace uroce::testing {
namespace {

PortPair open_memif_pair() {
  static const TemporaryFolder folder;
  const std::string common = ",id=0,socket-abstract=no,socket=" + folder.path() + "/pair.sock";
  return open_pair("net_memif0,role=server" + common, "net_memif1,role=client" + common);
}

}  // namespace

std::vector<JoinedPorts> joined_ports() {
  return {{.name = "loopback", .open = [] { return open_pair("loopback0", "loopback1"); }},
          {.name = "net_ring", .open = [] { return open_pair("net_ring0", "net_ring1"); }},
          {.name = "net_memif", .open = open_memif_pair}};
}

}  // namespace uroce::testing
