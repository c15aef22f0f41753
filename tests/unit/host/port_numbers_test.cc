#include "host/port_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "base/values/listen_address.h"

namespace uroce::host {
namespace {

constexpr uint16_t kTcp = 0x0106;
constexpr uint16_t kUdp = 0x0111;
constexpr PortNumbers::Holder kFirst{.owner = 1, .id = 1};
constexpr PortNumbers::Holder kSecond{.owner = 1, .id = 2};
constexpr PortNumbers::Holder kThird{.owner = 2, .id = 1};  // the same id of another program

const Gid kOne = Gid::from_ipv4({10, 0, 0, 1});
const Gid kOther = Gid::from_ipv4({10, 0, 0, 2});
const Gid kLoopback = Gid::from_ipv4({127, 0, 0, 1});

Gid ipv6(uint8_t last) {
  Gid address;
  address.bytes = {0x20, 0x01, 0x0D, 0xB8};
  address.bytes[15] = last;
  return address;
}
Gid ipv6_loopback() {
  Gid address;
  address.bytes[15] = 1;
  return address;
}

PortRequest at(const Gid& address, uint16_t port) {
  return {.space = kTcp, .address = address, .ipv6 = !address.is_ipv4(), .port = port};
}
PortRequest any4(uint16_t port) { return at(Gid::from_ipv4({}), port); }
PortRequest any6(uint16_t port) { return at(Gid{}, port); }
/// [::] without IPV6_V6ONLY.
PortRequest dual(uint16_t port) {
  PortRequest request = any6(port);
  request.family_only = false;
  return request;
}
PortRequest shared(PortRequest request) {
  request.reuse = true;
  return request;
}

struct Second {
  const char* what;
  PortRequest request;
  int error;
};

TEST(PortNumbers, BesideOneOnAnAddress_ExpectWhatDoesNotOverlap) {
  PortRequest other_space = at(kOne, 4420);
  other_space.space = kUdp;
  const Second table[] = {
      {"the same", at(kOne, 4420), EADDRINUSE},         {"all addresses", any4(4420), EADDRINUSE},
      {"another address", at(kOther, 4420), 0},         {"another port", at(kOne, 4421), 0},
      {"another port space", other_space, 0},           {"all of IPv6", any6(4420), 0},
      {"all of IPv6 and IPv4", dual(4420), EADDRINUSE},
  };
  // Whether the second id is of the same program or of another one.
  for (const PortNumbers::Holder next : {kSecond, kThird}) {
    for (const Second& second : table) {
      SCOPED_TRACE(second.what);
      PortNumbers ports(1);
      ASSERT_TRUE(ports.bind(at(kOne, 4420), kFirst).ok());
      const Result<uint16_t> got = ports.bind(second.request, next);
      EXPECT_EQ(got.ok() ? 0 : got.error().code, second.error);
      if (got.ok()) {
        EXPECT_EQ(*got, second.request.port);
        continue;
      }
      ports.release(kFirst);
      EXPECT_TRUE(ports.bind(second.request, next).ok());
    }
  }
}

TEST(PortNumbers, Shared_ExpectOnlyAmongThoseThatShareAndNoListener) {
  PortNumbers ports(1);
  const PortRequest request = shared(at(kOne, 18515));
  ASSERT_TRUE(ports.bind(request, kFirst).ok());
  ASSERT_TRUE(ports.bind(request, kThird).ok());
  EXPECT_EQ(ports.bind(at(kOne, 18515), kSecond).error().code, EADDRINUSE);
  EXPECT_EQ(ports.claim(kFirst).error().code, EADDRINUSE);
  EXPECT_EQ(ports.listener(kTcp, 18515, kOne), std::nullopt);
  ports.release(kThird);
  EXPECT_TRUE(ports.claim(kFirst).ok());
  EXPECT_EQ(ports.bind(request, kThird).error().code, EADDRINUSE);
  EXPECT_EQ(ports.claim(kSecond).error().code, EINVAL);
  EXPECT_EQ(ports.claim(kThird).error().code, EINVAL);
}

TEST(PortNumbers, NoneAskedFor_ExpectEachOfTheRangeOnce) {
  PortNumbers ports(7);
  std::set<uint16_t> seen;
  constexpr uint64_t kCount = PortNumbers::kLast - PortNumbers::kFirst + 1;
  for (uint64_t id = 0; id < kCount; ++id) {
    const Result<uint16_t> port = ports.bind(any4(0), {.owner = static_cast<uint32_t>(id % 3), .id = id});
    ASSERT_TRUE(port.ok());
    ASSERT_GE(*port, PortNumbers::kFirst);
    ASSERT_LE(*port, PortNumbers::kLast);
    ASSERT_TRUE(seen.insert(*port).second);
  }
  EXPECT_EQ(ports.bind(any4(0), {.owner = 1, .id = kCount}).error().code, EADDRNOTAVAIL);
  ports.release({.owner = 0, .id = 99});
  EXPECT_TRUE(ports.bind(any4(0), {.owner = 1, .id = kCount}).ok());
}

TEST(PortNumbers, IdThatIsBound_ExpectItRefusedASecondPort) {
  PortNumbers ports(1);
  ASSERT_TRUE(ports.bind(any4(4420), kFirst).ok());
  EXPECT_EQ(ports.bind(any4(4421), kFirst).error().code, EINVAL);
  ports.release(kFirst);
  EXPECT_TRUE(ports.bind(any4(4421), kFirst).ok());
  EXPECT_TRUE(ports.bind(any4(4420), kSecond).ok());
}

TEST(PortNumbers, ProgramThatBindsWithoutEnd_ExpectALimitOfItsOwn) {
  PortNumbers ports(1);
  for (uint64_t id = 0; id < PortNumbers::kOfOwnerMax; ++id) {
    // Each port once, in two spaces.
    PortRequest request = any4(static_cast<uint16_t>(id / 2 + 1));
    request.space = id % 2 == 0 ? kTcp : kUdp;
    ASSERT_TRUE(ports.bind(request, {.owner = 1, .id = id}).ok());
  }
  EXPECT_EQ(ports.bind(any4(50'000), {.owner = 1, .id = PortNumbers::kOfOwnerMax}).error().code, ENOBUFS);
  EXPECT_TRUE(ports.bind(any4(50'000), kThird).ok());
  ports.release_all(1);
  EXPECT_TRUE(ports.bind(any4(1), kFirst).ok());
}

TEST(PortNumbers, ProgramThatEnds_ExpectAllOfItsPortsFreeAndNoOthers) {
  PortNumbers ports(1);
  for (uint64_t id = 1; id <= 100; ++id)
    ASSERT_TRUE(ports.bind(shared(any4(4420)), {.owner = 1, .id = id}).ok());
  ASSERT_TRUE(ports.bind(shared(any4(4420)), kThird).ok());
  ASSERT_TRUE(ports.bind(any4(4421), {.owner = 1, .id = 101}).ok());
  ports.release_all(1);
  ports.release_all(1);
  ports.release(kFirst);
  EXPECT_TRUE(ports.bind(any4(4421), kFirst).ok());
  EXPECT_EQ(ports.bind(any4(4420), kSecond).error().code, EADDRINUSE);
  EXPECT_TRUE(ports.claim(kThird).ok());
  EXPECT_EQ(ports.listener(kTcp, 4420, kOne), std::optional(2u));
}

TEST(PortNumbers, IdThatIsBoundOnly_ExpectNoListenerUntilItListensAndAfterItsEnd) {
  PortNumbers ports(1);
  ASSERT_TRUE(ports.bind(at(kOne, 4420), kThird).ok());
  EXPECT_EQ(ports.listener(kTcp, 4420, kOne), std::nullopt);
  ASSERT_TRUE(ports.claim(kThird).ok());
  EXPECT_EQ(ports.listener(kTcp, 4420, kOne), std::optional(2u));
  EXPECT_EQ(ports.listener(kTcp, 4421, kOne), std::nullopt);
  EXPECT_EQ(ports.listener(kUdp, 4420, kOne), std::nullopt);
  EXPECT_EQ(ports.listener(kTcp, 4420, kOther), std::nullopt);
  ports.release(kThird);
  EXPECT_EQ(ports.listener(kTcp, 4420, kOne), std::nullopt);
}

struct Listening {
  const char* what;
  PortRequest request;
  std::string heard;  // of kOne, kOther, 127.0.0.1, 127.0.0.2, 2001:db8::1 and ::1, in this order
};

TEST(PortNumbers, Listener_ExpectTheAddressesThatItMeans) {
  const Listening table[] = {
      {"one address", at(kOne, 1), "1....."},
      {"all of IPv4", any4(1), "1111.."},
      {"all of IPv6", any6(1), "....11"},
      {"all of IPv6 and IPv4", dual(1), "111111"},
      {"127.0.0.1", at(kLoopback, 1), "..1..."},
      {"::1", at(ipv6_loopback(), 1), ".....1"},
      {"an IPv6 address", at(ipv6(1), 1), "....1."},
  };
  for (const Listening& listening : table) {
    SCOPED_TRACE(listening.what);
    PortNumbers ports(1);
    ASSERT_TRUE(ports.bind(listening.request, kFirst).ok());
    ASSERT_TRUE(ports.claim(kFirst).ok());
    std::string heard;
    for (const Gid& to : {kOne, kOther, kLoopback, Gid::from_ipv4({127, 0, 0, 2}), ipv6(1), ipv6_loopback()})
      heard += ports.listener(kTcp, 1, to).has_value() ? '1' : '.';
    EXPECT_EQ(heard, listening.heard);
  }
}

TEST(PortNumbers, ListenersOfTwoPrograms_ExpectEachItsOwnRequests) {
  PortNumbers ports(1);
  ASSERT_TRUE(ports.bind(any4(4420), kFirst).ok());
  ASSERT_TRUE(ports.bind(any6(4420), kThird).ok());
  ASSERT_TRUE(ports.claim(kFirst).ok());
  ASSERT_TRUE(ports.claim(kThird).ok());
  EXPECT_EQ(ports.listener(kTcp, 4420, kOther), std::optional(1u));
  EXPECT_EQ(ports.listener(kTcp, 4420, ipv6(1)), std::optional(2u));
  EXPECT_EQ(ports.listener(kTcp, 4420, kLoopback), std::optional(1u));
  EXPECT_EQ(ports.listener(kTcp, 4420, ipv6_loopback()), std::optional(2u));
}

TEST(PortNumbers, UserWithMany_ExpectAnEndAndOthersUnharmed) {
  PortNumbers ports(1);
  constexpr PortNumbers::Shares kShares{.of_user_max = 10};
  for (uint64_t id = 0; id < 10; ++id)
    ASSERT_TRUE(
        ports.bind(any4(0), {.owner = static_cast<uint32_t>(id % 2), .id = id, .user = 7}, kShares).ok());
  EXPECT_EQ(ports.bind(any4(0), {.owner = 5, .id = 1, .user = 7}, kShares).error().code, EDQUOT);
  EXPECT_EQ(ports.bind(any4(80), {.owner = 5, .id = 1, .user = 7}, kShares).error().code, EDQUOT);
  EXPECT_TRUE(ports.bind(any4(0), {.owner = 6, .id = 1, .user = 8}, kShares).ok());
  EXPECT_EQ(ports.count_of_user(7), 10u);
  ports.release_all(1);
  EXPECT_EQ(ports.count_of_user(7), 5u);
  EXPECT_TRUE(ports.bind(any4(0), {.owner = 5, .id = 1, .user = 7}, kShares).ok());
}

TEST(PortNumbers, LastFreePorts_ExpectThemOnlyForUsersWithFew) {
  PortNumbers ports(1);
  constexpr PortNumbers::Shares kShares{.reserve = 100, .few = 3};
  const PortNumbers::Holder greedy{.owner = 1, .id = 0, .user = 1};
  uint64_t id = 0;
  uint16_t last = 0;
  for (;; ++id) {
    const Result<uint16_t> port = ports.bind(shared(any4(0)), {.owner = 1, .id = id, .user = 1}, kShares);
    if (!port) {
      EXPECT_EQ(port.error().code, EDQUOT);
      break;
    }
    last = *port;
  }
  EXPECT_EQ(ports.free_count(kTcp), 100u);
  EXPECT_EQ(ports.free_count(kUdp), FreePorts::kCount);
  // A port that has ids already, or lies outside the range, is none of the last.
  EXPECT_TRUE(ports.bind(shared(any4(last)), {.owner = 1, .id = 1'000'000, .user = 1}, kShares).ok());
  EXPECT_TRUE(ports.bind(any4(4420), {.owner = 1, .id = 1'000'001, .user = 1}, kShares).ok());
  for (uint64_t mine = 0; mine < 3; ++mine)
    EXPECT_TRUE(ports.bind(any4(0), {.owner = 2, .id = mine, .user = 2}, kShares).ok());
  EXPECT_EQ(ports.bind(any4(0), {.owner = 2, .id = 3, .user = 2}, kShares).error().code, EDQUOT);
  EXPECT_EQ(ports.free_count(kTcp), 97u);
  ports.release_all(greedy.owner);
  EXPECT_EQ(ports.free_count(kTcp), FreePorts::kCount - 3);
}

/// The rules, by looking at all that is bound.
class SimplePorts {
 public:
  bool bind(const PortRequest& request, uint64_t id) {
    for (const auto& [other, bound] : bound_)
      if (bound.request.port == request.port && overlap(request, bound.request) &&
          !(request.reuse && bound.request.reuse))
        return false;
    bound_[id] = {request};
    return true;
  }
  bool claim(uint64_t id) {
    Bound& own = bound_.at(id);
    for (const auto& [other, bound] : bound_)
      if (other != id && bound.request.port == own.request.port && overlap(own.request, bound.request))
        return false;
    own.request.reuse = false;
    own.listens = true;
    return true;
  }
  void release(uint64_t id) { bound_.erase(id); }
  [[nodiscard]] bool has(uint64_t id) const { return bound_.contains(id); }
  [[nodiscard]] std::optional<uint32_t> listener(uint16_t port, const Gid& destination) const {
    std::optional<uint32_t> best;
    int precision = 0;
    for (const auto& [id, bound] : bound_) {
      if (!bound.listens || bound.request.port != port) continue;
      const ListenAddress address(bound.request.address, bound.request.ipv6 && bound.request.family_only);
      if (const int match = address.precision_for(destination); match > precision) {
        best = static_cast<uint32_t>(id % 4);
        precision = match;
      }
    }
    return best;
  }

 private:
  struct Bound {
    PortRequest request;
    bool listens = false;
  };
  static bool is_any(const PortRequest& request) {
    return request.address == (request.ipv6 ? Gid{} : Gid::from_ipv4({}));
  }
  static bool overlap(const PortRequest& one, const PortRequest& other) {
    if (one.ipv6 != other.ipv6) {
      const PortRequest& six = one.ipv6 ? one : other;
      return is_any(six) && !six.family_only;
    }
    return is_any(one) || is_any(other) || one.address == other.address;
  }
  std::map<uint64_t, Bound> bound_;
};

TEST(PortNumbers, RandomCalls_ExpectWhatLookingAtAllSays) {
  const Gid addresses[] = {kOne, kOther, kLoopback, ipv6(1), ipv6(2), ipv6_loopback()};
  const PortRequest kinds[] = {at(kOne, 0),    at(kOther, 0),  at(kLoopback, 0),
                               any4(0),        any6(0),        dual(0),
                               at(ipv6(1), 0), at(ipv6(2), 0), at(ipv6_loopback(), 0)};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PortNumbers ports(seed);
    SimplePorts model;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t id = random.below(24);
      const PortNumbers::Holder holder{.owner = static_cast<uint32_t>(id % 4), .id = id};
      if (!model.has(id)) {
        PortRequest request = kinds[random.below(std::size(kinds))];
        request.port = static_cast<uint16_t>(40'000 + random.below(2));
        request.reuse = random.chance(2, 3);
        ASSERT_EQ(ports.bind(request, holder).ok(), model.bind(request, id)) << step;
      } else if (random.chance(1, 2)) {
        ASSERT_EQ(ports.claim(holder).ok(), model.claim(id)) << step;
      } else {
        ports.release(holder);
        model.release(id);
      }
      for (const Gid& to : addresses)
        for (const uint16_t port : {uint16_t{40'000}, uint16_t{40'001}})
          ASSERT_EQ(ports.listener(kTcp, port, to), model.listener(port, to)) << step;
    }
    for (uint32_t owner = 0; owner < 4; ++owner) ports.release_all(owner);
    EXPECT_EQ(ports.free_count(kTcp), FreePorts::kCount);
  }
}

/// The time of 2,000 calls, the least of five.
template <typename Call>
int64_t time_of(Call call) {
  int64_t least = INT64_MAX;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) call();
    const auto took = std::chrono::steady_clock::now() - start;
    least = std::min<int64_t>(least, std::chrono::nanoseconds(took).count());
  }
  return least;
}

TEST(PortNumbers, ManyIdsOnOnePort_ExpectNoCallThatLooksAtAll) {
  const auto cost = [](uint64_t ids) {
    PortNumbers ports(1);
    for (uint64_t id = 0; id < ids; ++id)
      EXPECT_TRUE(ports.bind(shared(any4(5000)), {.owner = 1, .id = id}).ok());
    return time_of([&] {
      EXPECT_EQ(ports.claim({.owner = 1, .id = ids / 2}).error().code, EADDRINUSE);
      EXPECT_EQ(ports.bind(at(kOne, 5000), {.owner = 2, .id = 1}).error().code, EADDRINUSE);
      ports.release({.owner = 1, .id = ids / 2});
      EXPECT_TRUE(ports.bind(shared(any4(5000)), {.owner = 1, .id = ids / 2}).ok());
    });
  };
  // A look at all 60,000 would take a thousand times as long.
  EXPECT_LT(cost(60'000), 50 * cost(60));
}

TEST(PortNumbers, NoPortLeft_ExpectNoCallThatLooksAtAll) {
  const auto cost = [](uint64_t left) {
    PortNumbers ports(1);
    for (uint64_t id = 0; id < FreePorts::kCount - left; ++id)
      EXPECT_TRUE(ports.bind(any4(0), {.owner = 1, .id = id}).ok());
    return time_of([&] {
      if (ports.bind(any4(0), {.owner = 2, .id = 1}).ok()) ports.release({.owner = 2, .id = 1});
    });
  };
  EXPECT_LT(std::max(cost(0), cost(1)), 50 * cost(FreePorts::kCount));
}

}  // namespace
}  // namespace uroce::host
