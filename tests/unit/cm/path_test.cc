// The path and the ACK timeout of a connection, as REQ and REP say them.
#include <gtest/gtest.h>

#include "two_agents.h"

namespace uroce::cm {
namespace {

wire::CmReq req_with_path(const TwoAgents& world) {
  wire::CmReq req = world.req();
  req.local = {77};
  req.primary.traffic_class = 0x6B;  // DSCP 26, and CE, which only the network may say
  req.primary.flow_label = 0x12345;
  req.primary.service_level = 11;  // Ethernet has eight
  req.primary.hop_limit = 1;
  return req;
}

/// Receives a REQ whose datagram the network has marked, of another class than the connection will be.
TEST(Path, OfARequest_ExpectThePrimaryPathWithoutEcn) {
  TwoAgents world;
  world.server.answers = false;
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), {1, 0, req_with_path(world)});
  Address datagram = world.server.to(world.client);
  datagram.traffic_class = 0xE3;
  datagram.service_level = 7;
  Reluctant sink;
  world.server.agent.receive(datagram, bytes, world.now, sink);
  ASSERT_EQ(world.server.told.size(), 1u);
  const Address& path = world.server.told[0].address;
  EXPECT_EQ(path.traffic_class, 0x68);
  EXPECT_EQ(path.flow_label, 0x12345u);
  EXPECT_EQ(path.service_level, 3);
  EXPECT_EQ(path.hop_limit, 64) << "ours: the peer knows nothing of the way back";
}

/// The answer that is sent later goes the same way.
TEST(Path, OfTheReply_ExpectThatOfTheRequest) {
  TwoAgents world;
  std::array<std::byte, wire::kMadBytes> bytes;
  wire::write_cm(bytes.data(), {1, 0, req_with_path(world)});
  class Ways final : public MadSink {
   public:
    Sent send(const Address& address, const wire::CmMad&) override {
      last = address;
      return Sent::kYes;
    }
    Address last;
  } ways;
  world.server.agent.receive(world.server.to(world.client), bytes, world.now, ways);
  world.server.agent.pump(world.now, ways);
  EXPECT_EQ(ways.last.traffic_class, 0x68);
  EXPECT_EQ(ways.last.flow_label, 0x12345u);
}

/// The examples follow from Linux's rounding: the sum, or the larger where they are far apart.
TEST(AckTimeout, OfAPathAndAPeer_ExpectTheSumRoundedUp) {
  EXPECT_EQ(ack_timeout(16, 0), 17);
  EXPECT_EQ(ack_timeout(16, 15), 17);
  EXPECT_EQ(ack_timeout(16, 16), 18);
  EXPECT_EQ(ack_timeout(16, 17), 18);
  EXPECT_EQ(ack_timeout(16, 18), 19);
  EXPECT_EQ(ack_timeout(16, 19), 19);
  EXPECT_EQ(ack_timeout(16, 31), 31);
  EXPECT_EQ(ack_timeout(31, 31), 31);
  EXPECT_EQ(ack_timeout(0, 0), 2);
}

}  // namespace
}  // namespace uroce::cm
