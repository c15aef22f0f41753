#include "joined_ports.h"

#include "kernel_links.h"
#include "open_pair.h"
#include "temporary_folder.h"

namespace uroce::testing {
namespace {

PortPair open_memif_pair() {
  static const TemporaryFolder folder;
  const std::string common = ",id=0,socket-abstract=no,socket=" + folder.path() + "/pair.sock";
  return open_pair("net_memif0,role=server" + common, "net_memif1,role=client" + common);
}

PortPair open_over_veth(const std::string& driver, unsigned mtu) {
  if (!make_veth("near", "far", mtu)) return {};
  return open_pair(driver + "0,iface=near", driver + "1,iface=far");
}

}  // namespace

std::vector<JoinedPorts> joined_ports() {
  return {{.name = "loopback", .open = [] { return open_pair("loopback0", "loopback1"); }},
          {.name = "net_ring", .open = [] { return open_pair("net_ring0", "net_ring1"); }},
          {.name = "net_memif", .open = open_memif_pair},
          {.name = "net_af_packet",
           .open = [] { return open_over_veth("net_af_packet", 4200); },
           .by_kernel = true},
          {.name = "net_pcap", .open = [] { return open_over_veth("net_pcap", 4200); }, .by_kernel = true},
          {.name = "net_af_xdp",
           .open = [] { return open_over_veth("net_af_xdp", 3400); },
           .path_mtu = 2048,
           .by_kernel = true,
           .buffers_kept = 4096},
          {.name = "net_tap",
           .open = [] { return open_pair("net_tap0,iface=tap", "net_af_packet0,iface=tap"); },
           .path_mtu = 1024,
           .by_kernel = true}};
}

}  // namespace uroce::testing
