#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "two_agents.h"

// Each message of the protocol with each of its fields from another connection, address or exchange: nothing
// may come of it. The same message with all fields right is performed, which shows that it was the field.
namespace uroce::cm {
namespace {

class Discards final : public MadSink {
 public:
  Sent send(const Address&, const wire::CmMad& mad) override {
    sent.push_back(mad);
    return Sent::kYes;
  }
  std::vector<wire::CmMad> sent;
};

/// What may be another's.
enum class Field : uint8_t { kNone, kSender, kReceiver, kTransaction, kAddress, kQueuePair };
constexpr const char* kNames[] = {"none", "sender", "receiver", "transaction", "address", "queue pair"};

/// A connection in some state, and a message for one of its ends.
struct Case {
  const char* what;
  /// The state of the end that gets the message.
  State state;
  bool to_server;
  std::function<wire::CmMessage(CommId ours, CommId theirs)> message;
  State then;  // after the message as it should be
  std::vector<Field> fields;
  bool of_dreq = false;  // its exchange is that of the end's own DREQ
};

class ForeignMessages : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    world_.server.releases = world_.client.releases = false;
    const Case& row = GetParam();
    const bool opened = row.state == State::kEstablished || row.state == State::kDreqSent;
    world_.server.answers = world_.client.answers = opened;
    client_ = world_.connect();
    if (row.state == State::kReqSent) return world_.deliver();
    world_.deliver();
    server_ = world_.server.told.at(0).id;
    request_ = world_.last_sent().transaction_id;
    if (row.state == State::kReqReceived) return;
    if (!opened) {
      if (!row.to_server) world_.client.answers = false;
      EXPECT_EQ(world_.server.agent.reply(server_, TwoAgents::rep(), 9), 0);
      world_.fate = [&](size_t) {
        return GetParam().to_server ? TwoAgents::Fate::kLost : TwoAgents::Fate::kDelivered;
      };
      world_.deliver();
      world_.deliver();
      return;
    }
    world_.run(milliseconds(20));
    if (row.state != State::kDreqSent) return;
    world_.fate = [](size_t) { return TwoAgents::Fate::kLost; };
    EXPECT_EQ(end().agent.disconnect(id(), {}), 0);
    world_.deliver();
    disconnect_ = world_.last_sent().transaction_id;
  }

  TwoAgents::Host& end() { return GetParam().to_server ? world_.server : world_.client; }
  TwoAgents::Host& peer() { return GetParam().to_server ? world_.client : world_.server; }
  [[nodiscard]] CommId id() const { return GetParam().to_server ? server_ : client_; }
  [[nodiscard]] CommId peers_id() const { return GetParam().to_server ? client_ : server_; }
  /// The other end's number, or any where it has yet to be told.
  [[nodiscard]] CommId sender() const { return peers_id() == CommId{} ? CommId{77} : peers_id(); }

  void receive(Field foreign) {
    wire::CmMad mad{GetParam().of_dreq ? disconnect_ : request(), 0, GetParam().message(id(), sender())};
    Address from{.local = end().address, .remote = peer().address};
    if (foreign == Field::kTransaction) ++mad.transaction_id;
    if (foreign == Field::kAddress) from.remote = Gid::from_ipv4({10, 9, 9, 9});
    std::visit(
        [&]<typename Message>(Message& message) {
          if constexpr (requires { message.remote; }) {
            if (foreign == Field::kReceiver) message.remote.value ^= 1;
            if (foreign == Field::kSender) message.local.value ^= 1;
          }
          if constexpr (requires { message.remote_qp; })
            if (foreign == Field::kQueuePair) message.remote_qp.value ^= 1;
        },
        mad.message);
    std::array<std::byte, wire::kMadBytes> bytes{};
    wire::write_cm(bytes.data(), mad);
    end().agent.receive(from, bytes, world_.now, discards_);
  }
  /// The transaction of the REQ: that of all that the first end has sent.
  [[nodiscard]] uint64_t request() const {
    return request_ != 0 ? request_ : world_.last_sent().transaction_id;
  }

  TwoAgents world_{
      {.connections_max = 64, .listeners_max = 4, .first_number = 0x5EED'0000, .hold_requests = {}}};
  CommId client_;
  CommId server_;
  uint64_t request_ = 0;
  uint64_t disconnect_ = 0;
  Discards discards_;
};

TEST_P(ForeignMessages, ExpectThemWithoutEffect) {
  const Case& row = GetParam();
  ASSERT_EQ(end().agent.state_of(id()), row.state) << "the test's own preparation";
  const size_t told = end().told.size();
  for (const Field foreign : row.fields) {
    SCOPED_TRACE(kNames[static_cast<size_t>(foreign)]);
    receive(foreign);
    EXPECT_EQ(end().agent.state_of(id()), row.state);
    EXPECT_EQ(end().told.size(), told);
  }
  receive(Field::kNone);
  EXPECT_EQ(end().agent.state_of(id()), row.then) << "with every field right";
}

constexpr auto kIds = {Field::kSender, Field::kReceiver, Field::kTransaction, Field::kAddress};

std::vector<Field> all_fields() { return kIds; }
/// Of a peer whose number is not known yet.
std::vector<Field> without_sender() { return {Field::kReceiver, Field::kTransaction, Field::kAddress}; }
/// Of what begins an exchange of its own.
std::vector<Field> of_dreq() {
  return {Field::kSender, Field::kReceiver, Field::kAddress, Field::kQueuePair};
}

std::vector<Case> cases() {
  const auto rep = [](CommId ours, CommId theirs) {
    wire::CmRep message = TwoAgents::rep();
    message.local = theirs;
    message.remote = ours;
    return wire::CmMessage(message);
  };
  const auto rej = [](CommId ours, CommId theirs) {
    return wire::CmMessage(wire::CmRej{.local = theirs, .remote = ours});
  };
  const auto given_up = [](CommId, CommId theirs) {
    return wire::CmMessage(wire::CmRej{.local = theirs, .reason = wire::RejectReason::kTimeout});
  };
  const auto rtu = [](CommId ours, CommId theirs) {
    return wire::CmMessage(wire::CmRtu{.local = theirs, .remote = ours});
  };
  const auto drep = [](CommId ours, CommId theirs) {
    return wire::CmMessage(wire::CmDrep{.local = theirs, .remote = ours});
  };
  const auto dreq_to = [](uint32_t queue_pair) {
    return [queue_pair](CommId ours, CommId theirs) {
      return wire::CmMessage(wire::CmDreq{.local = theirs, .remote = ours, .remote_qp = {queue_pair}});
    };
  };
  using enum State;
  return {
      {"RepOfReq", kReqSent, false, rep, kRepReceived, without_sender()},
      {"RejOfReq", kReqSent, false, rej, kClosed, without_sender()},
      {"RejThatGivesUpAReq",
       kReqReceived,
       true,
       given_up,
       kClosed,
       {Field::kSender, Field::kTransaction, Field::kAddress}},
      {"RtuOfRep", kRepSent, true, rtu, kEstablished, all_fields()},
      {"RejOfRep", kRepSent, true, rej, kClosed, all_fields()},
      {"DreqInsteadOfRtu", kRepSent, true, dreq_to(200), kTimewait, of_dreq()},
      {"RejAfterRep", kRepReceived, false, rej, kClosed, all_fields()},
      {"DreqToServer", kEstablished, true, dreq_to(201), kTimewait, of_dreq()},
      {"DreqToClient", kEstablished, false, dreq_to(100), kTimewait, of_dreq()},
      {"RejOfConnection", kEstablished, true, rej, kTimewait, all_fields()},
      {"DrepToServer", kDreqSent, true, drep, kTimewait, all_fields(), true},
      {"DrepToClient", kDreqSent, false, drep, kTimewait, all_fields(), true},
      {"DrepOfAPeerInTimewait", kDreqSent, false, drep, kTimewait, all_fields()},
      {"RejOfDreq", kDreqSent, false, rej, kTimewait, all_fields(), true},
      {"RejOfRepAfterOurDreq",
       kDreqSent,
       false,
       rej,
       kTimewait,
       {Field::kSender, Field::kReceiver, Field::kAddress}},
      {"DreqAgainstDreq", kDreqSent, false, dreq_to(100), kTimewait, of_dreq()},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ForeignMessages, ::testing::ValuesIn(cases()),
                         [](const auto& row) { return std::string(row.param.what); });

/// A peer that asks for time holds the timer of our REQ for as long as it says.
TEST(ForeignMra, ExpectTheReqGivenUpInTime) {
  for (const bool foreign : {true, false}) {
    TwoAgents world;
    world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
    const CommId client = world.connect();
    world.deliver();
    std::array<std::byte, wire::kMadBytes> bytes{};
    const uint64_t transaction = world.last_sent().transaction_id + (foreign ? 1 : 0);
    wire::write_cm(bytes.data(),
                   {transaction, 0, wire::CmMra{.local = {77}, .remote = client, .service_timeout = 24}});
    Discards discards;
    const Instant before = world.client.agent.deadline();
    world.client.agent.receive(world.client.to(world.server), bytes, world.now, discards);
    EXPECT_EQ(world.client.agent.deadline() > before + seconds(30), !foreign);
    EXPECT_EQ(world.client.agent.counters().foreign, foreign ? 1u : 0u);
  }
}

struct ServiceAnswer {
  const char* what;
  uint32_t request;      // added to the number
  uint64_t transaction;  // likewise
  bool other_address;
  bool taken;
};

TEST(ForeignServiceReply, ExpectOnlyTheOneThatAnswersTaken) {
  const ServiceAnswer table[] = {
      {"another request", 1, 0, false, false},
      {"another transaction", 0, 1, false, false},
      {"another address", 0, 0, true, false},
      {"the answer", 0, 0, false, true},
  };
  for (const ServiceAnswer& row : table) {
    SCOPED_TRACE(row.what);
    TwoAgents world;
    world.fate = [](size_t) { return TwoAgents::Fate::kLost; };
    const auto id = world.client.agent.resolve_service(world.client.to(world.server),
                                                       {.service = TwoAgents::kService}, seconds(1), 3, 9);
    ASSERT_TRUE(id.ok());
    world.deliver();
    std::array<std::byte, wire::kMadBytes> bytes{};
    wire::write_cm(bytes.data(), {world.last_sent().transaction_id + row.transaction, 0,
                                  wire::CmSidrRep{.request = {id->value + row.request}, .qp = {5}}});
    Address from = world.client.to(world.server);
    if (row.other_address) from.remote = Gid::from_ipv4({10, 9, 9, 9});
    Discards discards;
    world.client.agent.receive(from, bytes, world.now, discards);
    EXPECT_EQ(world.client.count(EventKind::kServiceReply), row.taken ? 1u : 0u);
  }
}

/// A REQ that comes again in another exchange is not answered by what the first one got.
TEST(ForeignReq, ExpectNeitherRepNorMra) {
  for (const bool replied : {false, true}) {
    TwoAgents world;
    world.server.answers = replied;
    world.client.answers = false;
    const CommId client = world.connect();
    world.deliver();
    wire::CmReq again = world.req();
    again.local = client;
    Discards discards;
    for (const uint64_t other : {1u, 0u}) {
      std::array<std::byte, wire::kMadBytes> bytes{};
      wire::write_cm(bytes.data(), {world.server.told.at(0).mad.transaction_id + other, 0, again});
      discards.sent.clear();
      world.server.agent.receive(world.server.to(world.client), bytes, world.now, discards);
      world.server.agent.pump(world.now, discards);
      // What answers the first one may be on its way still.
      if (other == 1) discards.sent.clear();
      world.server.agent.receive(world.server.to(world.client), bytes, world.now, discards);
      world.server.agent.pump(world.now, discards);
      EXPECT_EQ(discards.sent.empty(), other == 1) << other;
    }
  }
}

/// An early request of a peer that gives it up is forgotten, and not when another exchange says so.
TEST(ForeignRej, ExpectAnEarlyRequestToWaitOn) {
  for (const bool foreign : {true, false}) {
    TwoAgents world;
    wire::CmReq req = world.req();
    req.local = {5};
    req.service.value += 1;
    Discards discards;
    std::array<std::byte, wire::kMadBytes> bytes{};
    const Address from = world.server.to(world.client);
    wire::write_cm(bytes.data(), {40, 0, req});
    world.server.agent.receive(from, bytes, world.now, discards);
    wire::write_cm(bytes.data(), {foreign ? 41u : 40u, 0, wire::CmRej{.local = {5}}});
    world.server.agent.receive(from, bytes, world.now, discards);
    ASSERT_TRUE(world.server.agent.listen(req.service, world.server.address, 4, 1).ok());
    world.server.agent.pump(world.now, discards);
    EXPECT_EQ(world.server.count(EventKind::kRequest), foreign ? 1u : 0u);
  }
}

/// Whoever was once asked by an agent does not know how it numbers what it sends to others.
TEST(Transactions, ExpectNoneFollowsFromAnother) {
  TwoAgents world({.connections_max = 64,
                   .listeners_max = 4,
                   .first_number = 0x5EED'0000,
                   .transactions = {.low = 1, .high = 2}});
  std::vector<uint64_t> seen;
  for (uint32_t i = 0; i < 16; ++i) {
    world.connect(100 + i);
    world.deliver();
    const uint64_t transaction = world.server.told.back().mad.transaction_id;
    for (const uint64_t other : seen) {
      EXPECT_NE(transaction, other);
      EXPECT_NE(transaction >> 32, other >> 32);
      EXPECT_NE(static_cast<uint32_t>(transaction), static_cast<uint32_t>(other));
    }
    seen.push_back(transaction);
  }
}

}  // namespace
}  // namespace uroce::cm
