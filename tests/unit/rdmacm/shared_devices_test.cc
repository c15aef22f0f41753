#include <arpa/inet.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "drivers/registry.h"
#include "ends.h"
#include "support/shared_port.h"
#include "wire/cm_message.h"
#include "wire/frame.h"
#include "wire/packet.h"

// Devices that this process shares with other programs of its host: with this file all tests of rdma_cm run
// on such devices, and the tests here look at what the service keeps.
namespace uroce::rdmacm_test {
namespace {

using testing::FakeHost;
using testing::SharedPort;

constexpr uint16_t kTcp = 0x0106;
constexpr host::PortNumbers::Holder kOthers{.owner = FakeHost::kOther, .id = 1};

FakeHost& service() {
  static FakeHost& only = *new FakeHost;  // devices use it until the process has ended
  return only;
}

/// Before a test opens the devices.
[[maybe_unused]] const bool decorated = [] {
  drivers::decorate_ports([](std::unique_ptr<port::Port> port) -> std::unique_ptr<port::Port> {
    static std::atomic<uint32_t> blocks = 1;
    const NumberBlock numbers{.first = blocks++ << 16, .count = 1u << 16};
    return std::make_unique<SharedPort>(std::move(port), service(), numbers);
  });
  return true;
}();

host::PortRequest at_server(uint16_t port) {
  return {.space = kTcp, .address = Gid::from_ipv4({192, 0, 2, 2}), .port = port};
}

// Of the configuration that this test is run with.
constexpr MacAddress kServerMac{{0x02, 0, 0, 0, 0, 2}};
constexpr MacAddress kClientMac{{0x02, 0, 0, 0, 0, 1}};

/// At the server's device, unless another one is named; port 0 stands for any.
Result<uint16_t> others_bind(const host::PortRequest& request, MacAddress device = kServerMac) {
  return service().with_ports(device, [&](host::PortNumbers& ports) { return ports.bind(request, kOthers); });
}
void others_release() {
  for (const MacAddress device : {kServerMac, kClientMac})
    service().with_ports(device, [](host::PortNumbers& ports) { ports.release_all(FakeHost::kOther); });
}
std::optional<uint32_t> listener_at(uint16_t port, const Gid& address, MacAddress device = kServerMac) {
  return service().with_ports(
      device, [&](const host::PortNumbers& ports) { return ports.listener(kTcp, port, address); });
}

int bind(const Id& id, const char* address, uint16_t port = 0) {
  return error_of(rdma_bind_addr(id.get(), Address(address, port).get()));
}

class SharedPorts : public ::testing::Test {
 protected:
  ~SharedPorts() override { others_release(); }
  Channel channel;
};

TEST_F(SharedPorts, PortOfAnotherProgram_ExpectEaddrinuseUntilItIsReleased) {
  const Result<uint16_t> taken = others_bind(at_server(0));
  ASSERT_TRUE(taken.ok());
  Id id(channel);
  EXPECT_EQ(bind(id, kServer, *taken), EADDRINUSE);
  EXPECT_EQ(bind(id, "0.0.0.0", *taken), EADDRINUSE);
  others_release();
  EXPECT_EQ(bind(id, kServer, *taken), 0);
  EXPECT_EQ(others_bind(at_server(*taken)).error().code, EADDRINUSE);
  id.end();
  EXPECT_TRUE(others_bind(at_server(*taken)).ok());
}

TEST_F(SharedPorts, PortThatAnotherProgramSharesWithUs_ExpectOneListener) {
  host::PortRequest request = at_server(0);
  request.reuse = true;
  const Result<uint16_t> taken = others_bind(request);
  ASSERT_TRUE(taken.ok());
  Id id(channel);
  int yes = 1;
  must(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
  EXPECT_EQ(bind(id, kServer, *taken), 0);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), EADDRINUSE);
  others_release();
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), 0);
  request.port = *taken;
  EXPECT_EQ(others_bind(request).error().code, EADDRINUSE);
}

TEST_F(SharedPorts, AllOfIpv4AndOfIpv6_ExpectOneProgramEach) {
  Id id(channel);
  EXPECT_EQ(bind(id, "0.0.0.0"), 0);
  host::PortRequest six{.space = kTcp, .ipv6 = true, .port = id.port(), .family_only = false};
  EXPECT_EQ(others_bind(six).error().code, EADDRINUSE);
  six.family_only = true;
  EXPECT_TRUE(others_bind(six).ok());
}

TEST_F(SharedPorts, Listener_ExpectTheServiceToKnowItUntilItIsDestroyed) {
  const Gid here = Gid::from_ipv4({192, 0, 2, 2});
  Id id(channel);
  EXPECT_EQ(bind(id, kServer), 0);
  const uint16_t port = id.port();
  EXPECT_EQ(listener_at(port, here), std::nullopt);
  must(rdma_listen(id.get(), 1));
  EXPECT_EQ(listener_at(port, here), std::optional<uint32_t>(FakeHost::kSelf));
  EXPECT_EQ(listener_at(port, Gid::from_ipv4({127, 0, 0, 1})), std::nullopt);
  id.end();
  EXPECT_EQ(listener_at(port, here), std::nullopt);
}

TEST_F(SharedPorts, ListenerAtAllAddresses_ExpectItAtEachDeviceAtOnePort) {
  const Gid loopback = Gid::from_ipv4({127, 0, 0, 1});
  for (const char* const address : {"0.0.0.0", "127.0.0.1"}) {
    SCOPED_TRACE(address);
    Id id(channel);
    EXPECT_EQ(bind(id, address), 0);
    must(rdma_listen(id.get(), 1));
    for (const MacAddress device : {kServerMac, kClientMac})
      EXPECT_EQ(listener_at(id.port(), loopback, device), std::optional<uint32_t>(FakeHost::kSelf));
    const uint16_t port = id.port();
    id.end();
    for (const MacAddress device : {kServerMac, kClientMac})
      EXPECT_EQ(listener_at(port, loopback, device), std::nullopt);
  }
}

TEST_F(SharedPorts, PortInUseAtOneDeviceOnly_ExpectEaddrinuseForAllAddressesAndNothingKept) {
  const host::PortRequest any{.space = kTcp, .address = Gid::from_ipv4({}), .port = 7471};
  ASSERT_TRUE(others_bind(any).ok());
  Id id(channel);
  EXPECT_EQ(bind(id, "0.0.0.0", 7471), EADDRINUSE);
  EXPECT_TRUE(others_bind(any, kClientMac).ok());
  others_release();
  EXPECT_EQ(bind(id, kClient, 7471), 0);
  EXPECT_TRUE(others_bind(any).ok());
}

TEST_F(SharedPorts, ServiceThatIsAway_ExpectItsErrorAndALaterCallThatWorks) {
  Id id(channel);
  service().fail(ENETDOWN);
  EXPECT_EQ(bind(id, kServer), ENETDOWN);
  service().fail(0);
  EXPECT_EQ(bind(id, kServer), 0);
  service().fail(ENETDOWN);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), ENETDOWN);
  service().fail(0);
  EXPECT_EQ(error_of(rdma_listen(id.get(), 1)), 0);
}

/// How long an ACK may wait at the server, which its REP says.
class AckDelay : public Ends {
 protected:
  ~AckDelay() override { service().set_tap({}); }

  /// Where it stands in the REPs that leave, in the upper five bits.
  static std::byte* place_in(std::span<std::byte> frame) {
    constexpr size_t kInMessage = 26;
    wire::CmMad mad;
    wire::Packet packet;
    if (wire::parse_frame(frame, packet).result != wire::ParseResult::kRoce ||
        packet.headers.bth.destination != QpNumber{1} ||
        wire::parse_cm(packet.payload, mad) != wire::CmParse::kOk ||
        !std::holds_alternative<wire::CmRep>(mad.message))
      return nullptr;
    return frame.data() + (packet.payload.data() - frame.data()) + wire::kMadHeaderBytes + kInMessage;
  }
};

TEST_F(AckDelay, OfTheReply_ExpectThatOfTheDevice) {
  std::vector<int> said;
  service().set_tap([&](std::span<std::byte> frame) {
    if (const std::byte* const place = place_in(frame)) said.push_back(static_cast<uint8_t>(*place) >> 3);
  });
  connect();
  service().set_tap({});
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(server->verbs, &attributes), 0);
  EXPECT_EQ(attributes.local_ca_ack_delay, 15);
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.front(), attributes.local_ca_ack_delay);
}

TEST_F(AckDelay, OfAServerThatTakesItsTime_ExpectTheClientToWait) {
  constexpr uint8_t kDelay = 20;
  service().set_tap([](std::span<std::byte> frame) {
    std::byte* const place = place_in(frame);
    if (place == nullptr) return;
    *place = static_cast<std::byte>(kDelay << 3);
    wire::Packet packet;
    ASSERT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
    wire::append_icrc(frame.data() + (packet.ip_packet.data() - frame.data()), packet.ip_packet.size());
  });
  connect();
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(client->qp, &attributes, IBV_QP_TIMEOUT, &initial), 0);
  EXPECT_EQ(attributes.timeout, kDelay);
  ASSERT_EQ(ibv_query_qp(server->qp, &attributes, IBV_QP_TIMEOUT, &initial), 0);
  EXPECT_EQ(attributes.timeout, 17) << "as the REQ says";
}

/// Queue pairs that the program names without having them, as cmtime's simulated ones.
class SimulatedQueuePairs : public Ends {
 protected:
  static constexpr uint32_t kOfNone = 1000;
  static constexpr uint32_t kOfAnother = FakeHost::kOtherNumbers.first + 1;
};

TEST_F(SimulatedQueuePairs, OfNoProgram_ExpectThemConnectedAndThoseOfAnotherRefused) {
  listen();
  client = caller(client_channel);
  rdma_conn_param param{};
  param.qp_num = kOfAnother;
  EXPECT_EQ(error_of(rdma_connect(client.get(), &param)), EINVAL);
  param.qp_num = kOfNone;
  must(rdma_connect(client.get(), &param));
  {
    const Event asked = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(asked->param.conn.qp_num, kOfNone);
    server = Id(asked->id);
  }
  param.qp_num = kOfAnother;
  EXPECT_EQ(error_of(rdma_accept(server.get(), &param)), EINVAL);
  param.qp_num = kOfNone + 1;
  must(rdma_accept(server.get(), &param));
  EXPECT_EQ(client_channel.take(RDMA_CM_EVENT_CONNECT_RESPONSE)->param.conn.qp_num, kOfNone + 1);
  must(rdma_establish(client.get()));
  server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace
}  // namespace uroce::rdmacm_test
