// What a REJ says in addition to its reason.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "cm/reject_information.h"
#include "two_agents.h"

namespace uroce::cm {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kGuid = 0x0102'0304'0506'0708;
const Bytes kGuidOnTheWire{1, 2, 3, 4, 5, 6, 7, 8};

Bytes information_of(const wire::CmRej& rej) {
  Bytes bytes;
  for (const std::byte byte : std::span(rej.information).first(rej.information_length))
    bytes.push_back(static_cast<uint8_t>(byte));
  return bytes;
}

class Refusals : public ::testing::Test {
 protected:
  [[nodiscard]] wire::CmRej last_rej() const { return std::get<wire::CmRej>(world.last_sent().message); }
  void lose_everything() {
    world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
  }

  TwoAgents world{{.ca_guid = kGuid,
                   .connections_max = 64,
                   .listeners_max = 4,
                   .first_number = 0x5EED'0000,
                   .hold_requests = {}}};
};

/// The server has never said a number of its own, so the REJ names the client by its GUID.
TEST_F(Refusals, ClientWithoutAnAnswer_ExpectItsGuid) {
  lose_everything();
  const CommId id = world.connect();
  world.run();
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kTimeout);
  EXPECT_EQ(last_rej().local, id);
  EXPECT_EQ(last_rej().remote, CommId{});
  EXPECT_EQ(information_of(last_rej()), kGuidOnTheWire);
}

TEST_F(Refusals, ClientThatLeavesBeforeTheAnswer_ExpectItsGuid) {
  world.server.answers = false;
  const CommId id = world.connect();
  world.deliver();
  world.client.agent.release(id);
  world.deliver();
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kTimeout);
  EXPECT_EQ(information_of(last_rej()), kGuidOnTheWire);
}

/// Linux looks for the connection of this reason by the GUID, though the REJ has both numbers.
TEST_F(Refusals, ServerWithoutAnAnswerToItsRep_ExpectItsGuid) {
  world.connect();
  world.deliver();
  lose_everything();
  while (world.server.count(EventKind::kUnanswered) == 0) world.run(milliseconds(10));
  EXPECT_EQ(world.client.count(EventKind::kUnanswered), 0u) << "it is more patient";
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kTimeout);
  EXPECT_NE(last_rej().local, CommId{});
  EXPECT_NE(last_rej().remote, CommId{});
  EXPECT_EQ(information_of(last_rej()), kGuidOnTheWire);
}

TEST_F(Refusals, OfAnotherAddress_ExpectTheOneThatTheRequestCameTo) {
  wire::CmReq req = world.req();
  req.primary.remote_gid.bytes[15] ^= 1;
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.deliver();
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kInvalidGid);
  const auto& gid = world.server.address.bytes;
  EXPECT_EQ(information_of(last_rej()), Bytes(gid.begin(), gid.end()));
}

TEST_F(Refusals, OfTheMtu_ExpectTheLargestInTheUpperBits) {
  world.server.answers = false;
  world.connect();
  world.deliver();
  ASSERT_EQ(world.server.agent.reject(world.server.told[0].id, wire::RejectReason::kInvalidMtu, {},
                                      information_of_mtu(PathMtu::k1024)),
            0);
  world.deliver();
  EXPECT_EQ(information_of(last_rej()), Bytes{3 << 4});
}

TEST_F(Refusals, ForOtherReasons_ExpectNothingAdded) {
  world.server.answers = false;
  world.connect();
  world.deliver();
  world.server.agent.release(world.server.told[0].id);
  world.deliver();
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kConsumerDefined);
  EXPECT_EQ(information_of(last_rej()), Bytes{});

  wire::CmReq req = world.req();
  req.service = {TwoAgents::kService.value + 1};
  ASSERT_TRUE(world.client.agent.connect(world.client.to(world.server), req, 1).ok());
  world.deliver();
  EXPECT_EQ(last_rej().reason, wire::RejectReason::kInvalidServiceId);
  EXPECT_EQ(information_of(last_rej()), Bytes{});
}

}  // namespace
}  // namespace uroce::cm
