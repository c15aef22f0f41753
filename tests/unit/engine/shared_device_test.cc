#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "bring_up.h"
#include "drivers/registry.h"
#include "engine/poller/gsi.h"
#include "tests/support/shared_port.h"
#include "tests/unit/net/outbox.h"
#include "virtual_pair.h"
#include "wire/frame.h"

// A device that this process shares with other programs of its host.
namespace uroce::engine {
namespace {

using testing::FakeHost;
using testing::SharedPort;

constexpr NumberBlock kNumbers{.first = 0x123'000, .count = 0x1000};
constexpr cm::ServiceId kService{0x0106'1144};

class User final : public ServicesUser {
 public:
  void on_event(const cm::Event& event) override {
    events.push_back(event.kind);
    if (event.kind == cm::EventKind::kRequest) {
      EXPECT_EQ(agent->reply(event.id, {.qp = {200}}, 0), 0);
    }
    if (event.kind == cm::EventKind::kReply) {
      EXPECT_EQ(agent->ready_to_use(event.id, {}), 0);
    }
  }
  void on_resolved(uint64_t, int) override {}

  cm::Agent* agent = nullptr;
  std::vector<cm::EventKind> events;
};

class Shared : public ::testing::Test {
 protected:
  Shared() {
    drivers::decorate_ports([this](std::unique_ptr<port::Port> port) {
      return std::unique_ptr<port::Port>(std::make_unique<SharedPort>(std::move(port), host, kNumbers));
    });
    pair.emplace();
    drivers::decorate_ports(nullptr);
  }

  [[nodiscard]] Gid ours() const { return pair->left->gids().at(1); }
  [[nodiscard]] Gid others() const { return pair->right->gids().at(1); }
  [[nodiscard]] uint64_t carried() const {
    return static_cast<SharedPort&>(*pair->left_state->port).queue(0).carried();
  }
  template <typename Function>
  void manage(Function function) {
    EXPECT_EQ(pair->left->manage(user,
                                 [&](Gsi& services, Instant) {
                                   user.agent = &services.agent();
                                   function(services.agent());
                                 }),
              0);
  }
  static cm::CommId connect(cm::Agent& agent, const Gid& from, const Gid& to) {
    wire::CmReq req;
    req.service = kService;
    req.qp = {100};
    req.primary.local_gid = from;
    req.primary.remote_gid = to;
    const Result<cm::CommId> id = agent.connect({.local = from, .remote = to}, req, 0);
    EXPECT_TRUE(id.ok());
    return *id;
  }
  /// A queue pair that can be a member of groups.
  QpSlot& make_member() {
    if (completions == nullptr) {
      completions = pair->left->create_completion_queue({.depth = 16});
      domain = *pair->left->allocate_domain();
    }
    return **pair->left->create_queue_pair({.type = qp::Type::kUd,
                                            .domain = domain,
                                            .send_depth = 4,
                                            .receive_depth = 4,
                                            .send_completions = completions.get(),
                                            .receive_completions = completions.get()});
  }
  [[nodiscard]] int joined(const Gid& group) {
    return host.with_groups([&](auto& groups) { return groups[group]; });
  }

  FakeHost host;
  User user;
  std::unique_ptr<queue::CompletionQueue> completions;
  DomainId domain;
  std::optional<VirtualPair> pair;
};

TEST_F(Shared, ConnectionToOurOwnListener_ExpectItThroughTheService) {
  cm::CommId ours_id;
  manage([&](cm::Agent& agent) {
    EXPECT_TRUE(agent.listen(kService, {}, 8, 0).ok());
    ours_id = connect(agent, ours(), ours());
  });
  for (const Instant end = VirtualPair::now() + milliseconds(3); VirtualPair::now() < end;) {
    pair->settle();
    VirtualPair::advance(milliseconds(1));
  }
  EXPECT_EQ(user.events,
            (std::vector{cm::EventKind::kRequest, cm::EventKind::kReply, cm::EventKind::kEstablished}));
  EXPECT_EQ(carried(), 3u);  // REQ, REP and RTU
  EXPECT_EQ(ours_id.value >> (32 - host::kCommPrefixBits), host::comm_prefix(kNumbers));
  EXPECT_TRUE(kNumbers.contains(host::owner_of_comm_id(ours_id.value)));
}

TEST_F(Shared, FramesOfAnotherProgramThanThePeer_ExpectThemDropped) {
  completions = pair->left->create_completion_queue({.depth = 16});
  domain = *pair->left->allocate_domain();
  const auto make = [&](const FarPeer& peer) {
    QpSlot& made = **pair->left->create_queue_pair({.type = qp::Type::kRc,
                                                    .domain = domain,
                                                    .send_depth = 4,
                                                    .receive_depth = 4,
                                                    .send_completions = completions.get(),
                                                    .receive_completions = completions.get()});
    EXPECT_EQ(bring_up(*pair->left, made, qp::Type::kRc, peer), 0);
    return &made;
  };
  constexpr QpNumber kPeer{FakeHost::kOtherNumbers.first + 5};
  QpSlot* const ours_to_program = make({.address = ours(), .number = kPeer});
  QpSlot* const ours_to_host = make({.address = others(), .number = kPeer});
  QpSlot* const ours_to_self = make({.address = ours(), .number = ours_to_host->number});
  auto& queue = static_cast<SharedPort&>(*pair->left_state->port).queue(0);
  /// How many of them were dropped for their sender: 0 or 1.
  const auto drops = [&](const QpSlot& to, const Gid& from, BlockCode sender) {
    const uint64_t before = pair->counter(*pair->left_state, Counter::kDropWrongPeer);
    const wire::Path path{.source_mac = pair->left->mac(),
                          .destination_mac = pair->left->mac(),
                          .source = from,
                          .destination = ours()};
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
    headers.bth.destination = to.number;
    const wire::FrameTemplate start(path);
    std::vector<std::byte> frame(wire::frame_bytes(start, headers.bth.opcode, 16));
    wire::write_headers(frame, start, headers, 16);
    wire::finish_frame(frame, start, headers.bth.opcode, 16);
    queue.bring(frame, sender);
    pair->turn(*pair->left_state);
    const uint64_t dropped = pair->counter(*pair->left_state, Counter::kDropWrongPeer) - before;
    // What a queue pair answers to itself has come, too.
    for (int i = 0; i < 3; ++i) pair->turn(*pair->left_state);
    return dropped;
  };
  const BlockCode peers = BlockCode::of(FakeHost::kOtherNumbers);
  const BlockCode anothers = BlockCode::of({.first = 0x40'0000, .count = 1u << 16});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(drops(*ours_to_program, ours(), peers), 0u);
    EXPECT_EQ(drops(*ours_to_program, ours(), anothers), 1u);
    EXPECT_EQ(drops(*ours_to_program, ours(), {}), 1u) << "from outside, with our address";
    EXPECT_EQ(drops(*ours_to_host, others(), {}), 0u);
    EXPECT_EQ(drops(*ours_to_self, ours(), {}), 0u);
    EXPECT_EQ(drops(*ours_to_self, ours(), anothers), 1u);
  }
  // Another peer from now on. Expect: what was found out about the one before does not count.
  const qp::AttributeMask to_reset = qp::kMaskState;
  EXPECT_EQ(pair->left->modify_queue_pair(*ours_to_program, {.state = qp::State::kReset}, to_reset), 0);
  EXPECT_EQ(
      bring_up(*pair->left, *ours_to_program, qp::Type::kRc, {.address = ours(), .number = {0x40'0007}}), 0);
  EXPECT_EQ(drops(*ours_to_program, ours(), peers), 1u);
  EXPECT_EQ(drops(*ours_to_program, ours(), anothers), 0u);
  for (QpSlot* const made : {ours_to_program, ours_to_host, ours_to_self})
    pair->left->destroy_queue_pair(*made);
}

TEST_F(Shared, QueuePairsThatNobodyKnows_ExpectAnyNumberOfThemOneAfterTheOther) {
  completions = pair->left->create_completion_queue({.depth = 16});
  domain = *pair->left->allocate_domain();
  // More than the program has numbers, in no time.
  for (uint32_t i = 0; i < 3 * kNumbers.count; ++i) {
    const auto made = pair->left->create_queue_pair({.type = qp::Type::kRc,
                                                     .domain = domain,
                                                     .send_depth = 1,
                                                     .receive_depth = 1,
                                                     .send_completions = completions.get(),
                                                     .receive_completions = completions.get()});
    ASSERT_TRUE(made.ok()) << i << " " << made.error().message;
    pair->left->destroy_queue_pair(**made);
  }
}

TEST_F(Shared, Device_ExpectWhatItSharesShown) {
  EXPECT_NE(pair->left->shared_device(), nullptr);
  EXPECT_EQ(pair->left->shared_device(), pair->left_state->port->shared_device());
}

TEST(NotShared, Device_ExpectNothingShown) {
  const VirtualPair pair;
  EXPECT_EQ(pair.left->shared_device(), nullptr);
}

/// Frames of the services, sent into a box.
TEST_F(Shared, Datagrams_ExpectThoseToOurAddressesOnTheHostAndEachWithAnIcrc) {
  struct Sent {
    bool shared;
    Gid to;
    bool to_self;
    bool on_host;
  };
  const Sent table[] = {{false, ours(), true, false},
                        {false, others(), false, false},
                        {true, ours(), false, true},
                        {true, others(), false, false}};
  for (const Sent& sent : table) {
    Gsi services({.mac = pair->left->mac(),
                  .addresses = pair->left_state->addresses,
                  .links = pair->left_state->links,
                  .shared = sent.shared,
                  .agent = {.connections_max = 4}},
                 user);
    testing::Outbox outbox;
    // What a frame before this one said does not stay.
    port::TxFrame* const next = outbox.batch().next();
    next->on_host = true;
    next->to_self = next->to_group = true;
    next->has_icrc = false;
    connect(services.agent(), ours(), sent.to);
    services.pump(VirtualPair::now(), outbox.batch());
    ASSERT_EQ(outbox.batch().size(), 1u);
    const port::TxFrame& frame = outbox.batch().frames()[0];
    EXPECT_EQ(frame.to_self, sent.to_self);
    EXPECT_EQ(frame.on_host, sent.on_host);
    EXPECT_FALSE(frame.to_group);
    EXPECT_TRUE(frame.has_icrc);
    static_cast<void>(outbox.take());
  }
}

TEST_F(Shared, MembersOfAGroup_ExpectItJoinedWithTheFirstAndLeftWithTheLast) {
  const Gid group = Gid::from_ipv4({224, 0, 0, 5});
  QpSlot& one = make_member();
  QpSlot& two = make_member();
  EXPECT_EQ(pair->left->attach_group(one, group), 0);
  EXPECT_EQ(pair->left->attach_group(one, group), 0);
  EXPECT_EQ(pair->left->attach_group(two, group), 0);
  EXPECT_EQ(joined(group), 1);
  EXPECT_EQ(pair->left->detach_group(one, group), 0);
  EXPECT_EQ(pair->left->detach_group(one, group), EINVAL);
  EXPECT_EQ(joined(group), 1);
  EXPECT_EQ(pair->left->detach_group(two, group), 0);
  EXPECT_EQ(joined(group), 0);

  // Queue pairs that are destroyed with their process's context are members no more.
  EXPECT_EQ(pair->left->attach_group(two, group), 0);
  EXPECT_EQ(joined(group), 1);
  pair->left->destroy_queue_pairs([](const QpSlot&) { return true; });
  EXPECT_EQ(joined(group), 0);
}

TEST_F(Shared, ServiceThatRefusesAGroup_ExpectItsErrorAndNoMember) {
  const Gid group = Gid::from_ipv4({224, 0, 0, 5});
  QpSlot& one = make_member();
  host.fail(ENETDOWN);
  EXPECT_EQ(pair->left->attach_group(one, group), ENETDOWN);
  EXPECT_FALSE(pair->left->in_groups(one));
  host.fail(0);
  EXPECT_EQ(pair->left->attach_group(one, group), 0);
  EXPECT_EQ(joined(group), 1);
  EXPECT_EQ(pair->left->detach_group(one, group), 0);
  pair->left->destroy_queue_pair(one);
}

}  // namespace
}  // namespace uroce::engine
