#include "service/left_connections.h"

#include <gtest/gtest.h>

#include "base/values/random.h"
#include "host/shared_device.h"
#include "tests/unit/service/switch_fixture.h"

// What becomes of the connections that a program leaves behind when it ends.
namespace uroce::testing {
namespace {

using host::OpenConnection;
using service::LeftConnections;

constexpr uid_t kUser = 1000;

NumberBlock block(uint32_t number) { return {number << host::kBlockBits, 1u << host::kBlockBits}; }

uint32_t comm_id(uint32_t number, uint32_t index) {
  return host::comm_prefix(block(number)) << (32 - host::kCommPrefixBits) | index;
}

std::vector<OpenConnection> connections(uint32_t number, uint32_t count) {
  std::vector<OpenConnection> all;
  for (uint32_t i = 1; i <= count; ++i)
    all.push_back({.local = comm_id(number, i), .remote = 1000 + i, .remote_address = kPeerAddress});
  return all;
}

/// What is to be sent until `until`, if time passes in steps of a millisecond.
std::vector<uint32_t> sent(LeftConnections& left, Instant& now, Instant until) {
  std::vector<uint32_t> ids;
  for (; now <= until; now = now + milliseconds(1)) {
    while (const OpenConnection* const connection = left.next(now)) {
      ids.push_back(connection->local);
      left.sent(now);
    }
  }
  return ids;
}

TEST(LeftConnections, EachPeerIsToldThreeTimes_WhileTheNumbersRest) {
  LeftConnections left;
  Instant now{};
  left.add(block(5), kUser, connections(5, 2), now);
  const std::vector<uint32_t> once{comm_id(5, 1), comm_id(5, 2)};
  EXPECT_EQ(sent(left, now, Instant{} + milliseconds(900)), once);
  EXPECT_EQ(sent(left, now, Instant{} + milliseconds(1900)), once);
  EXPECT_EQ(sent(left, now, Instant{} + milliseconds(2900)), once);
  EXPECT_EQ(left.size(), 2u);
  EXPECT_TRUE(sent(left, now, Instant{} + LeftConnections::kKept).empty());
  EXPECT_EQ(left.size(), 0u);
  EXPECT_EQ(left.deadline(), kNever);
}

TEST(LeftConnections, OneThatHasAnsweredIsNotToldAgain) {
  LeftConnections left;
  Instant now{};
  left.add(block(5), kUser, connections(5, 3), now);
  EXPECT_EQ(sent(left, now, Instant{} + milliseconds(900)).size(), 3u);
  left.answered({comm_id(5, 2)}, {1002}, kPeerAddress);
  left.answered({comm_id(5, 1)}, {1002}, kPeerAddress);  // of another peer
  left.answered({comm_id(5, 1)}, {1001}, kDeviceAddress);
  left.answered({comm_id(6, 1)}, {1001}, kPeerAddress);  // of no program that has left any
  left.answered({comm_id(4, 1)}, {1001}, kPeerAddress);
  EXPECT_EQ(sent(left, now, Instant{} + milliseconds(1900)),
            (std::vector<uint32_t>{comm_id(5, 1), comm_id(5, 3)}));
}

TEST(LeftConnections, WhoHasTheNumbersNowIsNotConcerned) {
  LeftConnections left;
  Instant now{};
  left.add(block(5), kUser, connections(5, 3), now);
  left.add(block(7), kUser, connections(7, 3), now);
  // A larger block around the first one.
  left.forget({4u << host::kBlockBits, 2u << host::kBlockBits});
  EXPECT_EQ(left.size(), 3u);
  for (const uint32_t id : sent(left, now, Instant{} + LeftConnections::kKept))
    EXPECT_EQ(host::owner_of_comm_id(id), QpNumber{block(7).first});
}

TEST(LeftConnections, TheRateIsBounded_AndProgramsTakeTurns) {
  LeftConnections left;
  Instant now{};
  left.add(block(5), kUser, connections(5, 30'000), now);
  left.add(block(6), kUser + 1, connections(6, 1), now);
  const std::vector<uint32_t> ids = sent(left, now, Instant{} + milliseconds(100));
  const auto most =
      static_cast<size_t>(milliseconds(100).ns / LeftConnections::kEach.ns + LeftConnections::kBurst);
  EXPECT_LE(ids.size(), most);
  EXPECT_GE(ids.size(), most / 2);
  // The other user's only one is not behind the 30,000.
  const auto place = std::ranges::find(ids, comm_id(6, 1)) - ids.begin();
  EXPECT_LE(place, 2);
}

TEST(LeftConnections, AUserHasAShare) {
  LeftConnections left;
  for (uint32_t i = 0; i < 4; ++i) left.add(block(5 + i), kUser, connections(5 + i, 20'000), {});
  EXPECT_EQ(left.size(), LeftConnections::kOfUserMax);
  left.add(block(20), kUser + 1, connections(20, 100), {});
  EXPECT_EQ(left.size(), LeftConnections::kOfUserMax + 100);
  // Given back with the connections.
  Instant now{};
  sent(left, now, Instant{} + LeftConnections::kKept + seconds(1));
  EXPECT_EQ(left.size(), 0u);
  left.add(block(5), kUser, connections(5, 100), now);
  EXPECT_EQ(left.size(), 100u);
}

class ProgramRows : public SwitchTest {
 protected:
  static OpenConnection to_peer_of(const Member& member, uint32_t index) {
    return {.local = member.comm_id(index).value,
            .remote = 77,
            .remote_qp = {0x1234},
            .local_address = kDeviceAddress,
            .remote_address = kPeerAddress,
            .link = kPeerMac,
            .hop_limit = 64};
  }
  /// As the program writes them.
  static host::ConnectionRows rows_of(Member& member) {
    constexpr host::MemoryLayout kLayout(host::kProgramMemory);
    std::byte* const memory = member.memory.bytes().data();
    return {{kLayout.connections(memory), host::kProgramMemory.connections},
            kLayout.usage(memory).connections};
  }
  /// As the service does when the program has ended.
  void end(Member& member) {
    switch_.remove(*member.attachment);
    switch_.disconnect(member.attachment->block(), kUser, member.attachment->connections());
  }
  /// The DREQs that a turn sends.
  std::vector<wire::CmDreq> disconnects() {
    collect();
    std::vector<wire::CmDreq> all;
    for (const Bytes& frame : outbox_.take()) {
      wire::Packet packet;
      EXPECT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
      EXPECT_EQ(packet.source_mac, kDeviceMac);
      EXPECT_EQ(packet.source, kDeviceAddress);
      EXPECT_EQ(packet.destination_mac, kPeerMac);
      EXPECT_EQ(packet.headers.deth.qkey, wire::kGsiQkey);
      wire::CmMad mad;
      EXPECT_EQ(wire::parse_cm(packet.payload, mad), wire::CmParse::kOk);
      all.push_back(std::get<wire::CmDreq>(mad.message));
    }
    return all;
  }
};

TEST_F(ProgramRows, PeersOfAnEndedProgramAreDisconnected) {
  const auto a = make(1, 5);
  auto rows = rows_of(*a);
  rows.write(1, to_peer_of(*a, 1));
  rows.write(2, to_peer_of(*a, 2));
  rows.clear(1);
  EXPECT_TRUE(disconnects().empty());
  end(*a);
  const auto told = disconnects();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told.front().local, a->comm_id(2));
  EXPECT_EQ(told.front().remote, wire::CommId{77});
  EXPECT_EQ(told.front().remote_qp, QpNumber{0x1234});
  EXPECT_TRUE(switch_.time_to_disconnect());
  // Receive the peer's answer. Expect: the device's to look at, and no DREQ more.
  EXPECT_FALSE(deliver(cm_frame(from_peer(), wire::CmDrep{.local = {77}, .remote = a->comm_id(2)})));
  now_ = now_ + seconds(2);
  EXPECT_TRUE(disconnects().empty());
}

TEST_F(ProgramRows, AnIdInManyRowsIsOneConnection) {
  const auto a = make(1, 5);
  auto rows = rows_of(*a);
  for (uint32_t row = 1; row <= 50; ++row) rows.write(row, to_peer_of(*a, 7));
  end(*a);
  EXPECT_EQ(disconnects().size(), 1u);
}

TEST_F(ProgramRows, APeerOnTheHostIsTold) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  OpenConnection connection = to_peer_of(*a, 1);
  connection.remote = b->comm_id(1).value;
  connection.remote_address = kDeviceAddress;
  rows_of(*a).write(1, connection);
  end(*a);
  collect();
  EXPECT_TRUE(outbox_.batch().empty());
  EXPECT_TRUE(b->memory.receive());
}

TEST_F(ProgramRows, NothingIsSaidForOthers) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  auto rows = rows_of(*a);
  uint32_t row = 1;
  const auto write = [&](auto change) {
    OpenConnection connection = to_peer_of(*a, row);
    change(connection);
    rows.write(row++, connection);
  };
  write([&](OpenConnection& one) { one.local = b->comm_id(1).value; });
  write([&](OpenConnection& one) { one.local = 0x700'00001; });
  write([&](OpenConnection& one) { one.local_address = kPeerAddress; });
  write([&](OpenConnection& one) { one.remote = 0; });
  write([&](OpenConnection& one) { one.link = MacAddress{}; });
  write([&](OpenConnection& one) { one.link = MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}}; });
  write([&](OpenConnection& one) { one.remote_address = Gid{}; });
  write([&](OpenConnection& one) { one.remote_address = Gid::from_ipv4({224, 0, 0, 1}); });
  write([&](OpenConnection& one) { one.remote_address.bytes[0] = 0x20; });  // of another family
  end(*a);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(disconnects().empty());
  EXPECT_FALSE(b->memory.receive());
}

TEST_F(ProgramRows, RandomRowsAreHarmless) {
  Random random(0x5EED);
  for (int i = 0; i < 200; ++i) {
    const auto a = make(1, 5);
    constexpr host::MemoryLayout kLayout(host::kProgramMemory);
    std::byte* const memory = a->memory.bytes().data();
    auto* const bytes = reinterpret_cast<std::byte*>(kLayout.connections(memory));
    for (size_t at = 0; at < 64 * sizeof(host::ConnectionRow); ++at)
      bytes[at] = static_cast<std::byte>(random.below(256));
    // Some of them have ids of the program's.
    for (uint32_t row = 0; row < 64; row += 2)
      kLayout.connections(memory)[row].local.store(a->comm_id(row + 1).value);
    kLayout.usage(memory).connections.store(random.below(2) == 0 ? 64 : UINT32_MAX);
    end(*a);
    for (int turn = 0; turn < 64; ++turn) {
      now_ = now_ + milliseconds(1);
      collect();
    }
    for (const Bytes& frame : outbox_.take()) {
      wire::Packet packet;
      ASSERT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
      EXPECT_EQ(packet.source, kDeviceAddress);
      EXPECT_EQ(packet.headers.bth.destination, QpNumber{1});
    }
  }
}

}  // namespace
}  // namespace uroce::testing
