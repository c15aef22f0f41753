#include "joined_ports.h"

#include <gtest/gtest.h>

#include <utility>

#include "drivers/registry.h"

namespace uroce::testing {
namespace {

PortPair open_pair(const std::string& near, const std::string& far) {
  PortPair pair;
  for (auto [port, devargs] : {std::pair{&pair.near, near}, std::pair{&pair.far, far}}) {
    auto opened = drivers::open_port({.devargs = devargs});
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return {};
    }
    *port = std::move(*opened);
  }
  return pair;
}

}  // namespace

std::vector<JoinedPorts> joined_ports() {
  return {{.name = "loopback", .open = [] { return open_pair("loopback0", "loopback1"); }}};
}

}  // namespace uroce::testing
