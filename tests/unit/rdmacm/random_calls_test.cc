#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/values/random.h"
#include "ends.h"
#include "rdmacm/device.h"
#include "support/soon.h"
#include "wire/ip_cm.h"

// A program that makes any call of rdma_cm at any moment, while strangers send any message. It looks into the
// stack, which is linked into it.
namespace uroce::rdmacm_test {
namespace {

constexpr size_t kIdsMax = 12;
constexpr const char* kAddresses[] = {kServer, kClient, "127.0.0.1", "0.0.0.0", "::1", "::", "192.0.2.77"};

size_t connections() {
  size_t all = 0;
  const auto devices = rdmacm::devices();
  for (const auto& device : *devices) {
    EXPECT_EQ(device->manage([&](engine::Gsi& services, Instant) { all += services.agent().connections(); }),
              0);
  }
  return all;
}

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {}
  ~Program() {
    take_events();
    while (!ids_.empty()) destroy(ids_.size() - 1);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step() {
    switch (random_.below(8)) {
      case 0:
        return stranger();
      case 1:
      case 2:
        return take_events();
      case 3:
        if (ids_.size() < kIdsMax) ids_.emplace_back(make());
        return;
      default:
        if (!ids_.empty()) call(random_.below(ids_.size()));
    }
  }

  size_t established = 0;
  size_t requests = 0;

 private:
  [[nodiscard]] rdma_cm_id* make() {
    rdma_cm_id* id = nullptr;
    must(rdma_create_id(channel_.get(), &id, nullptr, random_.chance(1, 4) ? RDMA_PS_UDP : RDMA_PS_TCP));
    return id;
  }

  /// 0, or -1 and errno.
  static void returns(int result) { EXPECT_TRUE(result == 0 || (result == -1 && errno != 0)) << result; }

  [[nodiscard]] Address any_address() {
    const uint16_t port = random_.chance(1, 8) ? uint16_t{0} : static_cast<uint16_t>(7000 + random_.below(4));
    return Address(kAddresses[random_.below(std::size(kAddresses))], port);
  }

  void call(size_t which) {
    rdma_cm_id* const id = ids_[which];
    errno = 0;
    switch (random_.below(14)) {
      case 0:
        return returns(rdma_bind_addr(id, any_address().get()));
      case 1:
        return returns(rdma_listen(id, static_cast<int>(random_.below(4))));
      case 2:
      case 3:
        return returns(
            rdma_resolve_addr(id, nullptr, any_address().get(), 1 + static_cast<int>(random_.below(50))));
      case 4:
        return returns(rdma_resolve_route(id, 100));
      case 5:
      case 6:
        make_queue_pair_of(id);
        return returns(rdma_connect(id, nullptr));
      case 7:
        make_queue_pair_of(id);
        return returns(rdma_accept(id, nullptr));
      case 8:
        return returns(rdma_reject(id, nullptr, 0));
      case 9:
        return returns(rdma_disconnect(id));
      case 10:
        return returns(rdma_notify(id, IBV_EVENT_COMM_EST));
      case 11:
        return returns(rdma_migrate_id(id, channel_.get()));
      case 12:
        if (id->qp != nullptr) rdma_destroy_qp(id);
        return;
      default:
        take_events();  // a thread that destroys an id that a request came from has nothing to acknowledge
        return destroy(which);
    }
  }

  void make_queue_pair_of(rdma_cm_id* id) {
    if (id->verbs == nullptr || id->qp != nullptr || random_.chance(1, 4)) return;
    ibv_qp_init_attr wanted = queue_pair_of(id->qp_type);
    returns(rdma_create_qp(id, nullptr, &wanted));
  }

  void destroy(size_t which) {
    rdma_cm_id* const id = ids_[which];
    ids_.erase(ids_.begin() + static_cast<ptrdiff_t>(which));
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }

  void take_events() {
    while (channel_.readable()) {
      rdma_cm_event* event = nullptr;
      must(rdma_get_cm_event(channel_.get(), &event));
      if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        ++requests;
        ids_.push_back(event->id);
      }
      if (event->event == RDMA_CM_EVENT_ESTABLISHED) ++established;
      must(rdma_ack_cm_event(event));
      if (ids_.size() > 2 * kIdsMax) destroy(0);
    }
  }

  /// A message of an address that is no host's, often with numbers that may be those of a connection.
  void stranger() {
    const auto devices = rdmacm::devices();
    const auto& device = (*devices)[random_.below(devices->size())];
    const cm::Address way{.local = device->device().gids().at(1),
                          .remote = Gid::from_ipv4({192, 0, 2, static_cast<uint8_t>(90 + random_.below(4))}),
                          .link = {{2, 1, 0, 0, 0, static_cast<uint8_t>(random_.below(4))}}};
    std::array<std::byte, wire::kMadBytes> bytes;
    wire::write_cm(bytes.data(), {random_.below(4), 0, any_message(way)});
    if (random_.chance(1, 4)) bytes[random_.below(bytes.size())] = static_cast<std::byte>(random_.next());
    struct Nowhere final : cm::MadSink {
      cm::Sent send(const cm::Address&, const wire::CmMad&) override { return cm::Sent::kYes; }
    } nowhere;
    EXPECT_EQ(device->manage([&](engine::Gsi& services, Instant now) {
      services.agent().receive(way, bytes, now, nowhere);
    }),
              0);
  }

  [[nodiscard]] wire::CmMessage any_message(const cm::Address& way) {
    const auto port = static_cast<uint16_t>(7000 + random_.below(4));
    const wire::IpCmHeader header{
        .ipv4 = true, .source_port = 1, .source = way.remote, .destination = way.local};
    const wire::CommId theirs{1 + static_cast<uint32_t>(random_.below(8))};
    switch (random_.below(6)) {
      case 0:
        return wire::CmRej{.local = theirs};
      case 1: {
        wire::CmSidrReq req{.request = theirs, .service = wire::service_of(wire::PortSpace::kUdp, port)};
        wire::write_ip_cm(req.private_data.data(), header);
        return req;
      }
      case 2:
        return wire::CmDreq{.local = theirs, .remote = {static_cast<uint32_t>(random_.next())}};
      default: {
        wire::CmReq req;
        req.local = theirs;
        req.service = wire::service_of(wire::PortSpace::kTcp, port);
        req.qp = {1 + static_cast<uint32_t>(random_.below(1000))};
        req.path_mtu = static_cast<uint8_t>(1 + random_.below(4));
        req.primary.local_gid = way.remote;
        req.primary.remote_gid = way.local;
        wire::write_ip_cm(req.private_data.data(), header);
        return req;
      }
    }
  }

  Random random_;
  Channel channel_;
  std::vector<rdma_cm_id*> ids_;
};

TEST(RandomCalls, WithStrangers_ExpectErrorsOfCallsAndNothingLeft) {
  const char* const given = std::getenv("UROCE_RDMACM_SEED");
  const uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 0);
  const uint64_t count = given == nullptr ? 40 : 1;
  size_t established = 0;
  size_t requests = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "UROCE_RDMACM_SEED=" << seed);
    Program program(seed);
    for (int step = 0; step < 400; ++step) program.step();
    established += program.established;
    requests += program.requests;
    if (::testing::Test::HasFailure()) return;
  }
  if (given == nullptr) {
    EXPECT_GT(established, 0u);
    EXPECT_GT(requests, 0u);
  }
  EXPECT_TRUE(soon([] { return connections() == 0; })) << connections();
}

}  // namespace
}  // namespace uroce::rdmacm_test
