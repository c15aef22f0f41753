#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "drivers/registry.h"
#include "engine/poller/general_services.h"
#include "tests/support/shared_port.h"
#include "tests/unit/net/outbox.h"
#include "virtual_pair.h"

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
                                 [&](GeneralServices& services, Instant) {
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
  QueuePairHandle& make_member() {
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
    GeneralServices services({.mac = pair->left->mac(),
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
  QueuePairHandle& one = make_member();
  QueuePairHandle& two = make_member();
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
  pair->left->destroy_queue_pairs([](const QueuePairHandle&) { return true; });
  EXPECT_EQ(joined(group), 0);
}

TEST_F(Shared, ServiceThatRefusesAGroup_ExpectItsErrorAndNoMember) {
  const Gid group = Gid::from_ipv4({224, 0, 0, 5});
  QueuePairHandle& one = make_member();
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
