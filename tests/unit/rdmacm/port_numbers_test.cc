#include "rdmacm/port_numbers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace uroce::rdmacm {
namespace {

using wire::PortSpace;

const Gid kOne = Gid::from_ipv4({10, 0, 0, 1});
const Gid kOther = Gid::from_ipv4({10, 0, 0, 2});

PortNumbers::BindRequest at(const Gid& address, uint16_t port, sa_family_t family = AF_INET) {
  return {.address = {.family = family, .address = address, .port = port}};
}
PortNumbers::BindRequest any(uint16_t port, sa_family_t family = AF_INET) {
  return at(SocketAddress::any(family), port, family);
}

struct Second {
  const char* what;
  PortNumbers::BindRequest request;
  int error;
};

TEST(PortNumbers, BesideOneOnAnAddress_ExpectWhatDoesNotOverlap) {
  PortNumbers::BindRequest other_space = at(kOne, 4420);
  other_space.space = PortSpace::kUdp;
  PortNumbers::BindRequest dual = any(4420, AF_INET6);
  dual.family_only = false;
  const Second table[] = {
      {"the same", at(kOne, 4420), EADDRINUSE},   {"all addresses", any(4420), EADDRINUSE},
      {"another address", at(kOther, 4420), 0},   {"another port", at(kOne, 4421), 0},
      {"another port space", other_space, 0},     {"all of IPv6", any(4420, AF_INET6), 0},
      {"all of IPv6 and IPv4", dual, EADDRINUSE},
  };
  for (const Second& second : table) {
    SCOPED_TRACE(second.what);
    PortNumbers ports(1);
    int first = 0;
    int next = 0;
    ASSERT_TRUE(ports.bind(at(kOne, 4420), &first).ok());
    const Result<uint16_t> got = ports.bind(second.request, &next);
    EXPECT_EQ(got.ok() ? 0 : got.error().code, second.error);
    if (got.ok()) {
      EXPECT_EQ(*got, second.request.address.port);
      continue;
    }
    ports.release(&first);
    EXPECT_TRUE(ports.bind(second.request, &next).ok());
  }
}

TEST(PortNumbers, Shared_ExpectOnlyAmongThoseThatShareAndNoListener) {
  PortNumbers ports(1);
  PortNumbers::BindRequest shared = at(kOne, 18515);
  shared.reuse = true;
  int first = 0;
  int second = 0;
  int third = 0;
  ASSERT_TRUE(ports.bind(shared, &first).ok());
  ASSERT_TRUE(ports.bind(shared, &second).ok());
  EXPECT_EQ(ports.bind(at(kOne, 18515), &third).error().code, EADDRINUSE);
  EXPECT_EQ(ports.claim(&first).error().code, EADDRINUSE);
  ports.release(&second);
  EXPECT_TRUE(ports.claim(&first).ok());
  EXPECT_EQ(ports.bind(shared, &second).error().code, EADDRINUSE);
  EXPECT_EQ(ports.claim(&third).error().code, EINVAL);
}

TEST(PortNumbers, NoneAskedFor_ExpectEachOfTheRangeOnce) {
  PortNumbers ports(7);
  std::set<uint16_t> seen;
  std::vector<char> who(PortNumbers::kLast - PortNumbers::kFirst + 2);
  for (size_t i = 0; i + 1 < who.size(); ++i) {
    const Result<uint16_t> port = ports.bind(any(0), &who[i]);
    ASSERT_TRUE(port.ok());
    ASSERT_GE(*port, PortNumbers::kFirst);
    ASSERT_LE(*port, PortNumbers::kLast);
    ASSERT_TRUE(seen.insert(*port).second);
  }
  EXPECT_EQ(ports.bind(any(0), &who.back()).error().code, EADDRNOTAVAIL);
  ports.release(&who[100]);
  EXPECT_TRUE(ports.bind(any(0), &who.back()).ok());
}

}  // namespace
}  // namespace uroce::rdmacm
