#include "rdmacm/ports.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "host/connection_rows.h"

namespace uroce::rdmacm {
namespace {

constexpr uint16_t kTcp = 0x0106;

/// A service that notes what it is asked.
class Service final : public host::SharedDevice {
 public:
  [[nodiscard]] NumberBlock numbers() const override { return {}; }
  [[nodiscard]] std::vector<host::SharedAddress> addresses() const override { return {}; }
  [[nodiscard]] std::vector<uint16_t> partition_keys() const override { return {}; }
  bool is_anothers(QpNumber) override { return false; }
  [[nodiscard]] uint32_t link_mtu() const override { return 1500; }
  [[nodiscard]] uint32_t programs() const override { return 1; }

  Result<uint16_t> bind(uint64_t id, const host::PortRequest& request) override {
    asked.push_back("bind " + std::to_string(id) + " to " + std::to_string(request.port));
    if (error != 0) return Error{error, "refused"};
    return uint16_t{777};
  }
  Status listen(uint64_t id) override {
    asked.push_back("listen " + std::to_string(id));
    return error == 0 ? Status{} : Error{error, "refused"};
  }
  void release(uint64_t id) override { asked.push_back("release " + std::to_string(id)); }

  Status join(const Gid&) override { return {}; }
  void leave(const Gid&) override {}
  std::optional<Gid> source_to(const Gid&) override { return std::nullopt; }
  void resolve(const host::Neighbour&) override {}
  void show_queue_pairs(uint32_t) override {}
  host::ConnectionRows connection_rows() override { return {}; }
  std::span<FaultCounts> fault_counts() override { return {}; }
  void start(host::SharedDeviceListener&) override {}
  void stop() override {}

  std::vector<std::string> asked;
  int error = 0;
};

host::PortRequest at(uint16_t port) { return {.space = kTcp, .address = Gid::from_ipv4({}), .port = port}; }

using Tables = std::vector<Ports::Table>;

TEST(Ports, DevicesOfTheProcessAlone_ExpectOneTableForAll) {
  Ports ports(1, [] { return Tables{nullptr, nullptr}; });
  const Result<uint16_t> port = ports.bind(1, at(4420), std::nullopt);
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(*port, 4420);
  EXPECT_EQ(ports.bind(1, at(4421), std::nullopt).error().code, EINVAL);
  EXPECT_EQ(ports.bind(2, at(4420), std::nullopt).error().code, EADDRINUSE);
  EXPECT_EQ(ports.bind(2, at(4420), nullptr).error().code, EADDRINUSE);
  EXPECT_TRUE(ports.claim(1).ok());
  EXPECT_EQ(ports.claim(2).error().code, EINVAL);
  ports.release(1);
  EXPECT_TRUE(ports.bind(2, at(4420), std::nullopt).ok());
}

TEST(Ports, SharedDevices_ExpectEachAskedForAllAddressesAndOneForItsOwn) {
  Service one;
  Service other;
  Ports ports(1, [&] { return Tables{&one, &other, &one}; });
  const Result<uint16_t> port = ports.bind(5, at(0), std::nullopt);
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(*port, 777);
  EXPECT_TRUE(ports.claim(5).ok());
  ports.release(5);
  EXPECT_EQ(one.asked, (std::vector<std::string>{"bind 5 to 0", "listen 5", "release 5"}));
  EXPECT_EQ(other.asked, (std::vector<std::string>{"bind 5 to 777", "listen 5", "release 5"}));

  ASSERT_TRUE(ports.bind(6, at(4420), &other).ok());
  EXPECT_EQ(one.asked.size(), 3u);
  EXPECT_EQ(other.asked.back(), "bind 6 to 4420");
}

TEST(Ports, OneDeviceIsShared_ExpectThePortInBothTables) {
  Service service;
  Ports ports(1, [&] { return Tables{nullptr, &service}; });
  ASSERT_TRUE(ports.bind(5, at(4420), std::nullopt).ok());
  EXPECT_EQ(ports.bind(6, at(4420), nullptr).error().code, EADDRINUSE);
  EXPECT_EQ(service.asked, (std::vector<std::string>{"bind 5 to 4420"}));
}

TEST(Ports, PortThatASecondTableRefuses_ExpectTheFirstToGiveItUpAndOthersTriedIfAnyWillDo) {
  Service one;
  Service other;
  other.error = EADDRINUSE;
  Ports ports(1, [&] { return Tables{&one, &other}; });
  EXPECT_EQ(ports.bind(5, at(4420), std::nullopt).error().code, EADDRINUSE);
  EXPECT_EQ(one.asked, (std::vector<std::string>{"bind 5 to 4420", "release 5"}));
  EXPECT_EQ(ports.claim(5).error().code, EINVAL);

  EXPECT_EQ(ports.bind(5, at(0), std::nullopt).error().code, EADDRINUSE);
  EXPECT_GT(other.asked.size(), 10u);
  other.error = 0;
  EXPECT_TRUE(ports.bind(5, at(0), std::nullopt).ok());
}

TEST(Ports, ServiceThatRefuses_ExpectItsErrorAndALaterCallThatWorks) {
  Service service;
  service.error = ENETDOWN;
  Ports ports(1, [&] { return Tables{&service}; });
  EXPECT_EQ(ports.bind(5, at(0), std::nullopt).error().code, ENETDOWN);
  EXPECT_EQ(service.asked.size(), 1u);
  service.error = 0;
  EXPECT_TRUE(ports.bind(5, at(0), std::nullopt).ok());
}

TEST(Ports, ForkedChild_ExpectWhatItsParentHasBoundLeftAlone) {
  Service service;
  bool child = false;
  Ports ports(1, [&] { return child ? Tables{nullptr} : Tables{&service}; });
  ASSERT_TRUE(ports.bind(5, at(4420), std::nullopt).ok());
  child = true;
  EXPECT_EQ(ports.claim(5).error().code, EINVAL);
  ports.release(5);
  EXPECT_EQ(service.asked, (std::vector<std::string>{"bind 5 to 4420"}));
  EXPECT_TRUE(ports.bind(6, at(4420), std::nullopt).ok());
}

}  // namespace
}  // namespace uroce::rdmacm
