#include "kernel_links.h"

#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace uroce::testing {
namespace {

std::string& reason() {
  static auto* text = new std::string("no network namespace was entered");
  return *text;
}

}  // namespace

void enter_namespace() {
  if (unshare(CLONE_NEWNET) != 0) {
    reason() = std::string("no network namespace: ") + std::strerror(errno);
  } else {
    reason() = ip("link set lo up") ? "" : "the program ip does not work";
    // Interfaces made from now on are silent: nothing is announced on them.
    std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
  }
}

const std::string& no_kernel_links() { return reason(); }

bool ip(const std::string& arguments) { return std::system(("ip " + arguments).c_str()) == 0; }

bool make_veth(const std::string& near, const std::string& far, unsigned mtu) {
  std::system(("ip link delete " + near + " 2>/dev/null").c_str());
  const std::string bytes = " mtu " + std::to_string(mtu);
  return ip("link add " + near + bytes + " type veth peer name " + far + bytes) &&
         ip("link set " + near + " addrgenmode none up") && ip("link set " + far + " addrgenmode none up");
}

}  // namespace uroce::testing
