// Packets that a queue pair drops by its attributes: one that is not in use stays so, and they are counted as
// if it were. A host that may not send to a queue pair cannot have it take memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/counters/counter_texts.h"
#include "bring_up.h"
#include "engine/poller/poller.h"
#include "engine/poller/poller_qp.h"
#include "faults/rule.h"
#include "net/derived_mac.h"
#include "virtual_pair.h"
#include "wire/frame.h"

namespace uroce::engine {
namespace {

using qp::State;
using qp::Type;
using wire::Operation;
using wire::Service;

constexpr uint32_t kQkey = 0x11111111;
constexpr Psn kFirstPsn{700};
constexpr uint32_t kReceiveBytes = 100;
constexpr uint32_t kHeaderBytes = 40;  // of a datagram, in its receive

/// A packet that is intact; of whom and for whom the test says.
struct Sent {
  wire::Path path;
  wire::Headers headers;
  uint32_t payload = 0;

  void set_service(Service service, Operation operation = Operation::kSendOnly) {
    headers.bth.opcode = wire::Opcode::make(service, operation);
  }
};

class UnwelcomePackets : public testing::TestWithParam<Type> {
 protected:
  UnwelcomePackets() : domain_(std::move(*pair.right->create_xrc_domain())) {}
  ~UnwelcomePackets() override {
    end_queue_pairs();
    pair.right->destroy_xrc_domain(std::move(domain_));
  }

  /// In RESET.
  PollerQp& make(Type type, SharedReceives* shared = nullptr) {
    QueuePairOptions options{.type = type, .domain = owner.domain(), .send_depth = 4};
    options.send_completions = options.receive_completions = &owner.completions();
    if (shared == nullptr) options.receive_depth = 4;
    options.shared_receives = shared;
    if (type == Type::kXrcReceive) options = {.type = type, .xrc_domain = domain_.get()};
    made_.push_back(static_cast<PollerQp*>(*pair.right->create_queue_pair(options)));
    return *made_.back();
  }
  void end_queue_pairs() {
    for (PollerQp* const made : std::exchange(made_, {})) pair.right->destroy_queue_pair(*made);
  }
  /// From RESET; its peer is the left device.
  void bring_up(PollerQp& entry, State to) {
    const FarPeer peer{pair.left->gids().at(1), QpNumber{0x77}, kFirstPsn, kQkey};
    ASSERT_EQ(engine::bring_up(*pair.right, entry, entry.queue_pair.type(), peer, to), 0);
  }
  PollerQp& make_up(State to = State::kRts) {
    PollerQp& entry = make(GetParam());
    bring_up(entry, to);
    post_receive(entry, kReceiveBytes);
    return entry;
  }
  /// An XRC target has none.
  void post_receive(PollerQp& entry, uint32_t bytes) {
    queue::ReceiveRequest* const request = entry.receive_queue.reserve();
    if (request == nullptr) return;
    request->length = bytes;
    request->segments = 1;
    entry.receive_queue.segments(*request)[0] = {owner.address(), bytes, owner.lkey()};
    entry.receive_queue.publish();
  }

  /// A packet that the queue pair receives.
  [[nodiscard]] Sent welcome(const PollerQp& entry) const {
    Sent sent;
    sent.path.source_mac = VirtualPair::mac(0);
    sent.path.destination_mac = VirtualPair::mac(1);
    sent.path.source = pair.left->gids().at(1);
    sent.path.destination = pair.right->gids().at(1);
    sent.set_service(qp::service_of(entry.queue_pair.type()));
    sent.headers.bth.destination = entry.queue_pair.number();
    sent.headers.bth.psn = kFirstPsn;
    sent.headers.deth = {.qkey = kQkey, .source = {0x77}};
    return sent;
  }
  void send(const Sent& sent) {
    const wire::FrameTemplate path(sent.path);
    port::PortQueue& wire = pair.left_state->port->queue(0);
    port::TxFrame frame[1];
    ASSERT_EQ(wire.allocate(frame), 1);
    const std::span<std::byte> bytes(frame[0].data, frame[0].capacity);
    std::fill_n(wire::write_headers(bytes, path, sent.headers, sent.payload), sent.payload, std::byte{});
    frame[0].length = wire::finish_frame(bytes, path, sent.headers.bth.opcode, sent.payload);
    ASSERT_EQ(wire.transmit(frame), 1);
    pair.turn(*pair.right_state);
  }
  [[nodiscard]] uint64_t counted(Counter counter) const { return pair.counter(*pair.right_state, counter); }
  [[nodiscard]] static bool is_used(const PollerQp& entry) { return entry.queue_pair.used() != nullptr; }

  /// By one that is not in use, and then by the same one in use.
  void expect_dropped(PollerQp& entry, const Sent& sent, Counter reason) {
    const uint64_t before = counted(reason);
    send(sent);
    EXPECT_EQ(counted(reason), before + 1) << texts_of(reason).label;
    EXPECT_FALSE(is_used(entry)) << texts_of(reason).label;
    ASSERT_NE(entry.queue_pair.use(), nullptr);
    send(sent);
    EXPECT_EQ(counted(reason), before + 2) << texts_of(reason).label << " of one in use";
  }
  using Change = std::function<void(Sent&)>;
  /// What receives a welcome packet drops it with that change.
  void expect_dropped(const Change& change, Counter reason, State state = State::kRts) {
    PollerQp& entry = make_up(state);
    Sent sent = welcome(entry);
    change(sent);
    expect_dropped(entry, sent, reason);
  }

  /// What receives a welcome packet receives it with that change, too.
  void expect_use(const Change& change) {
    PollerQp& entry = make_up();
    Sent sent = welcome(entry);
    change(sent);
    send(sent);
    EXPECT_TRUE(is_used(entry));
  }

  [[nodiscard]] static bool connected() { return GetParam() != Type::kUd; }

  VirtualPair pair;
  Side owner{pair.right, 4096};  // of domain, completion queue and memory

 private:
  std::unique_ptr<XrcDomain> domain_;
  std::vector<PollerQp*> made_;
};

TEST_P(UnwelcomePackets, None_ExpectUse) {
  for (const State state : {State::kRtr, State::kRts}) {
    PollerQp& entry = make_up(state);
    send(welcome(entry));
    EXPECT_TRUE(is_used(entry));
  }
}

TEST_P(UnwelcomePackets, StatesThatDoNotReceive_ExpectDropsOfUnused) {
  for (const State state : {State::kReset, State::kInit}) {
    PollerQp& entry = make(GetParam());
    bring_up(entry, state);
    expect_dropped(entry, welcome(entry), Counter::kDropQpState);
  }
}

TEST_P(UnwelcomePackets, OfAnotherHost_ExpectDropsOfUnusedUnlessAnyoneMaySend) {
  const Change change = [](Sent& sent) { sent.path.source = Gid::from_ipv4({192, 0, 2, 66}); };
  if (!connected()) return expect_use(change);
  expect_dropped(change, Counter::kDropWrongPeer);
}

TEST_P(UnwelcomePackets, ToAnotherAddressOfOurs_ExpectDropsOfUnusedUnlessAnyoneMaySend) {
  const Gid other = Gid::from_ipv4({192, 0, 2, 3});
  ASSERT_EQ(pair.right->add_address({other, 24}), 0);
  const Change change = [&](Sent& sent) { sent.path.destination = other; };
  if (!connected()) return expect_use(change);
  expect_dropped(change, Counter::kDropWrongPeer);
}

TEST_P(UnwelcomePackets, OfAnotherPartition_ExpectDropsOfUnused) {
  expect_dropped([](Sent& sent) { sent.headers.bth.partition_key = 0x8001; }, Counter::kDropPartitionKey);
}

TEST_P(UnwelcomePackets, OfAnotherService_ExpectDropsOfUnused) {
  for (const Service service : {Service::kRc, Service::kUc, Service::kUd, Service::kXrc}) {
    if (service == qp::service_of(GetParam())) continue;
    expect_dropped([&](Sent& sent) { sent.set_service(service); }, Counter::kDropService);
  }
}

TEST_P(UnwelcomePackets, CnpsThatCountForNothing_ExpectDropsOfUnused) {
  const auto cnp = [](Sent& sent) { sent.headers.bth.opcode = wire::kCnpOpcode; };
  if (!connected()) return expect_dropped(cnp, Counter::kDropService);
  expect_dropped(
      [&](Sent& sent) {
        cnp(sent);
        sent.path.source = Gid::from_ipv4({192, 0, 2, 66});
      },
      Counter::kDropWrongPeer);
  expect_dropped(
      [&](Sent& sent) {
        cnp(sent);
        sent.headers.bth.partition_key = 0x8001;
      },
      Counter::kDropPartitionKey);
  expect_dropped(cnp, Counter::kDropQpState, State::kInit);
}

TEST_P(UnwelcomePackets, ThatAFaultRefuses_ExpectDropsOfUnused) {
  ASSERT_TRUE(pair.right->add_fault({1, *faults::parse_rule("nak=rnr:100%")}));
  expect_dropped([](Sent& sent) { sent.headers.bth.partition_key = 0x8001; }, Counter::kDropPartitionKey);
  PollerQp& entry = make_up();
  send(welcome(entry));
  EXPECT_TRUE(is_used(entry));
  EXPECT_EQ(counted(Counter::kRnrNakSent), qp::is_reliable(GetParam()) ? 1u : 0u);
}

std::string name_of(const testing::TestParamInfo<Type>& type) {
  if (type.param == Type::kUc) return "Uc";
  if (type.param == Type::kUd) return "Ud";
  return type.param == Type::kRc ? "Rc" : "XrcTarget";
}

INSTANTIATE_TEST_SUITE_P(Types, UnwelcomePackets,
                         testing::Values(Type::kRc, Type::kUc, Type::kUd, Type::kXrcReceive), name_of);

/// Of services that answer.
class UnwelcomeAnswers : public UnwelcomePackets {};

TEST_P(UnwelcomeAnswers, BeforeRts_ExpectDropsOfUnused) {
  expect_dropped([](Sent& sent) { sent.set_service(qp::service_of(GetParam()), Operation::kAcknowledge); },
                 Counter::kDropQpState, State::kRtr);
}

INSTANTIATE_TEST_SUITE_P(Types, UnwelcomeAnswers, testing::Values(Type::kRc, Type::kXrcReceive), name_of);

/// Anyone may send datagrams, so what they find counts as well.
class UnwelcomeDatagrams : public UnwelcomePackets {};

TEST_P(UnwelcomeDatagrams, WithAnotherQkey_ExpectDropsOfUnused) {
  expect_dropped([](Sent& sent) { ++sent.headers.deth.qkey; }, Counter::kDropQkey);
}

TEST_P(UnwelcomeDatagrams, LongerThanTheReceive_ExpectDropsOfUnused) {
  expect_dropped([](Sent& sent) { sent.payload = kReceiveBytes - kHeaderBytes + 1; }, Counter::kDropTooLong);
  PollerQp& entry = make_up();
  Sent sent = welcome(entry);
  sent.payload = kReceiveBytes - kHeaderBytes;
  send(sent);
  EXPECT_TRUE(is_used(entry));
  EXPECT_EQ(owner.look()->bytes, kReceiveBytes);
}

TEST_P(UnwelcomeDatagrams, WithoutAReceive_ExpectDropsOfUnused) {
  PollerQp& entry = make(Type::kUd);
  bring_up(entry, State::kRtr);
  expect_dropped(entry, welcome(entry), Counter::kDropNoReceive);
}

TEST_P(UnwelcomeDatagrams, WithoutASharedReceive_ExpectDropsOfUnused) {
  auto shared =
      std::move(*pair.right->create_shared_receives({.domain = owner.domain(), .queue = {.depth = 4}}));
  PollerQp& entry = make(Type::kUd, shared.get());
  bring_up(entry, State::kRtr);
  expect_dropped(entry, welcome(entry), Counter::kDropNoReceive);
  end_queue_pairs();
  pair.right->destroy_shared_receives(std::move(shared));
}

TEST_P(UnwelcomeDatagrams, ToAGroup_ExpectDropsOfUnusedMembers) {
  const Gid group = Gid::from_ipv4({224, 0, 0, 5});
  PollerQp* const members[] = {&make_up(), &make_up()};
  for (PollerQp* const member : members) ASSERT_EQ(pair.right->attach_group(*member, group), 0);
  Sent sent = welcome(*members[0]);
  sent.path.destination = group;
  sent.path.destination_mac = net::multicast_mac(group);
  sent.headers.bth.destination = QpNumber{QpNumber::kMask};
  ++sent.headers.deth.qkey;
  send(sent);
  EXPECT_EQ(counted(Counter::kDropQkey), 2u);
  for (PollerQp* const member : members) EXPECT_FALSE(is_used(*member));
  --sent.headers.deth.qkey;
  send(sent);
  for (PollerQp* const member : members) {
    EXPECT_TRUE(is_used(*member));
    EXPECT_TRUE(owner.look());
    EXPECT_EQ(pair.right->detach_group(*member, group), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, UnwelcomeDatagrams, testing::Values(Type::kUd), name_of);

}  // namespace
}  // namespace uroce::engine
