#include "rdmacm/ports.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

namespace uroce::rdmacm {
namespace {

constexpr uint16_t kTcp = 0x0106;

/// A service that notes what it is asked.
class Service final : public host::SharedDevice {
 public:
  [[nodiscard]] NumberBlock numbers() const override { return {}; }
  [[nodiscard]] std::vector<host::SharedAddress> addresses() const override { return {}; }
  [[nodiscard]] std::vector<uint16_t> partition_keys() const override { return {}; }
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
  void resolve(const Gid&) override {}
  void start(host::SharedDeviceListener&) override {}
  void stop() override {}

  std::vector<std::string> asked;
  int error = 0;
};

host::PortRequest at(uint16_t port) { return {.space = kTcp, .address = Gid::from_ipv4({}), .port = port}; }

TEST(Ports, DevicesOfTheProcessAlone_ExpectPortsOfItsOwn) {
  Ports ports(1, [] { return nullptr; });
  const Result<uint16_t> port = ports.bind(1, at(4420));
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(*port, 4420);
  EXPECT_EQ(ports.bind(2, at(4420)).error().code, EADDRINUSE);
  EXPECT_TRUE(ports.claim(1).ok());
  EXPECT_EQ(ports.claim(2).error().code, EINVAL);
  ports.release(1);
  EXPECT_TRUE(ports.bind(2, at(4420)).ok());
}

TEST(Ports, SharedDevice_ExpectTheServiceAskedForAll) {
  Service service;
  Ports ports(1, [&] { return &service; });
  const Result<uint16_t> port = ports.bind(5, at(4420));
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(*port, 777);
  EXPECT_TRUE(ports.claim(5).ok());
  ports.release(5);
  EXPECT_EQ(service.asked, (std::vector<std::string>{"bind 5 to 4420", "listen 5", "release 5"}));
}

TEST(Ports, ServiceThatRefuses_ExpectItsErrorsAndNoPortOfTheProcess) {
  Service service;
  service.error = ENETDOWN;
  bool shared = true;
  Ports ports(1, [&]() -> host::SharedDevice* { return shared ? &service : nullptr; });
  EXPECT_EQ(ports.bind(5, at(4420)).error().code, ENETDOWN);
  EXPECT_EQ(ports.claim(5).error().code, ENETDOWN);
  // A forked child has no devices, and releases nothing of its parent's.
  shared = false;
  ports.release(5);
  EXPECT_EQ(service.asked.size(), 2u);
}

}  // namespace
}  // namespace uroce::rdmacm
