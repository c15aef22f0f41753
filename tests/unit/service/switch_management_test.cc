#include "tests/unit/service/switch_fixture.h"
#include "wire/ip_cm.h"

namespace uroce::testing {
namespace {

using service::HeldRequests;

constexpr uint16_t kPort = 7471;

wire::CmReq request(uint32_t sender, uint16_t port = kPort) {
  return {.local = {sender}, .service = wire::service_of(wire::PortSpace::kTcp, port)};
}

TEST_F(SwitchTest, RequestsGoToTheProgramThatListens) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  listen(*b, kPort);
  EXPECT_TRUE(deliver(cm_frame(from_peer(), request(1))));
  EXPECT_TRUE(deliver(
      cm_frame(from_peer(),
               wire::CmSidrReq{.request = {2}, .service = wire::service_of(wire::PortSpace::kTcp, kPort)})));
  EXPECT_FALSE(a->memory.receive());
  EXPECT_TRUE(b->memory.receive());
  EXPECT_TRUE(b->memory.receive());
}

TEST_F(SwitchTest, RequestsToALoopbackAddressMeanIt) {
  const Gid loopback = Gid::from_ipv4({127, 0, 0, 1});
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  listen(*a, kPort, loopback);
  listen(*b, kPort, kDeviceAddress);
  wire::CmReq to_loopback = request(b->comm_id(1).value);
  wire::write_ip_cm(to_loopback.private_data.data(),
                    {.ipv4 = true, .source_port = 9, .source = loopback, .destination = loopback});
  b->memory.send(cm_frame(to_self(), to_loopback));
  collect();
  EXPECT_TRUE(a->memory.receive());
  EXPECT_FALSE(b->memory.receive());
  // Receive the same from outside. Expect: the address that it came to.
  wire::CmReq from_outside = to_loopback;
  from_outside.local = {77};
  EXPECT_TRUE(deliver(cm_frame(from_peer(), from_outside)));
  EXPECT_TRUE(b->memory.receive());
}

TEST_F(SwitchTest, AnswersGoToTheOwnerOfTheConnection) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  EXPECT_TRUE(deliver(cm_frame(from_peer(), wire::CmRep{.local = {9}, .remote = b->comm_id(1)})));
  EXPECT_TRUE(b->memory.receive());
  EXPECT_TRUE(deliver(cm_frame(from_peer(), wire::CmSidrRep{.request = a->comm_id(1)})));
  EXPECT_TRUE(a->memory.receive());
  // Receive one for a program that is not there, and what is no message at all. Expect: the device's.
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmRtu{.local = {9}, .remote = {0x700'00001}})));
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmRep{.local = {9}, .remote = {0x700'00001}})));
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmDreq{.local = {9}, .remote = {0x700'00001}})));
  EXPECT_FALSE(deliver(ud_frame(from_peer(), {1}, {1}, 256)));
  EXPECT_FALSE(deliver(ud_frame(from_peer(), {1}, {1}, 64)));
}

TEST_F(SwitchTest, ARequestWaitsForAListener) {
  const auto a = make(1, 5);
  const Bytes frame = cm_frame(from_peer(), request(1));
  EXPECT_TRUE(deliver(frame));
  EXPECT_TRUE(deliver(frame));
  now_ = now_ + milliseconds(20);
  collect();
  EXPECT_FALSE(a->memory.receive());
  listen(*a, kPort);
  collect();
  const auto received = a->memory.receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes, frame);
  EXPECT_FALSE(a->memory.receive());
  EXPECT_TRUE(outbox_.batch().empty());
}

TEST_F(SwitchTest, ARequestWithoutAListenerIsTheDevicesAfterAWhile) {
  const auto a = make(1, 5);
  const Bytes frame = cm_frame(from_peer(), request(1));
  EXPECT_TRUE(deliver(frame));
  now_ = now_ + HeldRequests::kHeldFor;
  collect();
  ASSERT_EQ(outbox_.batch().size(), 1u);
  EXPECT_TRUE(outbox_.batch().frames().front().to_self);
  EXPECT_EQ(outbox_.take().front(), frame);
  EXPECT_FALSE(deliver(frame));
  // Receive it once more. Expect: it waits again.
  EXPECT_TRUE(deliver(frame));
}

TEST_F(SwitchTest, FewRequestsOfOneSourceWait) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  for (uint32_t i = 1; i <= HeldRequests::kOfOneSourceMax; ++i)
    EXPECT_TRUE(deliver(cm_frame(from_peer(), request(i))));
  EXPECT_FALSE(deliver(cm_frame(from_peer(), request(1000))));
  // Receive those of two programs of ours. Expect: each has its own share.
  for (Member* member : {a.get(), b.get()}) {
    for (uint32_t i = 1; i <= HeldRequests::kOfOneSourceMax; ++i)
      EXPECT_TRUE(deliver(cm_frame(to_self(), request(member->comm_id(i).value))));
    EXPECT_FALSE(deliver(cm_frame(to_self(), request(member->comm_id(1000).value))));
  }
}

TEST_F(SwitchTest, AllRequestsThatWaitAreBounded) {
  size_t held = 0;
  for (uint8_t host = 1; host < 100; ++host) {
    wire::Path path = from_peer();
    path.source = Gid::from_ipv4({198, 51, 100, host});
    held += deliver(cm_frame(path, request(1))) ? 1 : 0;
  }
  EXPECT_EQ(held, HeldRequests::kMax);
}

TEST_F(SwitchTest, ARepeatedRequestFindsTheProgramThatHadIt) {
  const auto a = make(1, 5);
  listen(*a, kPort);
  const Bytes frame = cm_frame(from_peer(), request(1));
  EXPECT_TRUE(deliver(frame));
  EXPECT_TRUE(a->memory.receive());
  // Receive it again when the program has ceased to listen. Expect: the program's.
  switch_.listeners().erase({static_cast<uint16_t>(wire::PortSpace::kTcp), kPort}, 1);
  EXPECT_TRUE(deliver(frame));
  EXPECT_TRUE(a->memory.receive());
  // Receive that the peer gives up. Expect: likewise.
  EXPECT_TRUE(deliver(cm_frame(from_peer(), wire::CmRej{.local = {1}})));
  EXPECT_TRUE(a->memory.receive());
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmRej{.local = {2}})));
}

TEST_F(SwitchTest, ARequestThatThePeerGivesUpWaitsNoMore) {
  const auto a = make(1, 5);
  EXPECT_TRUE(deliver(cm_frame(from_peer(), request(1))));
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmRej{.local = {1}})));
  listen(*a, kPort);
  collect();
  EXPECT_FALSE(a->memory.receive());
}

}  // namespace
}  // namespace uroce::testing
