#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "ends.h"
#include "engine/poller/queue_pair_table.h"
#include "rdmacm/device.h"
#include "support/soon.h"
#include "wire/ip_cm.h"

// Connections that come and go leave nothing behind. It looks into the stack, which is linked into it.
namespace uroce::rdmacm_test {
namespace {

#if defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif
// With the sanitizer, which has a heap of its own, looks for what is lost when the process ends, and is slow.
constexpr int kCycles = kSanitized ? 200 : 2000;
// Pools and tables have their size by then.
constexpr int kWarmUp = kCycles;
/// Less than any object takes, and much less than what is only kept for later comes to.
constexpr size_t kHeapGrowthMax = 32 * size_t{kCycles};

/// What both devices, and the process, have of everything.
struct Held {
  size_t descriptors = 0;
  size_t heap_bytes = 0;
  size_t connections = 0;  // places of the communication manager
  size_t queue_pairs = 0;
  size_t regions = 0;
};

Held held() {
  Held all;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  all.descriptors = static_cast<size_t>(std::distance(begin(descriptors), end(descriptors)));
  const struct mallinfo2 heap = mallinfo2();
  all.heap_bytes = heap.uordblks + heap.hblkhd;
  const auto devices = rdmacm::devices();
  if (!devices) throw std::runtime_error(devices.error().message);
  for (const auto& device : *devices) {
    const engine::Device::Information information = device->device().information();
    all.queue_pairs += information.queue_pairs;
    all.regions += information.regions;
    EXPECT_EQ(device->manage(
                  [&](engine::Gsi& services, Instant) { all.connections += services.agent().connections(); }),
              0);
  }
  return all;
}

class Leaks : public Ends {
 protected:
  void connect_and_part(bool client_begins) {
    const Channel channel;
    const Id calling = caller(channel);
    make_queue_pair(calling);
    must(rdma_connect(calling.get(), nullptr));
    const Id serving(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    make_queue_pair(serving);
    must(rdma_accept(serving.get(), nullptr));
    channel.take(RDMA_CM_EVENT_ESTABLISHED);
    server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
    exchange_data(calling, serving);
    must(rdma_disconnect((client_begins ? calling : serving).get()));
    channel.take(RDMA_CM_EVENT_DISCONNECTED);
    server_channel.take(RDMA_CM_EVENT_DISCONNECTED);
  }

  void be_refused() {
    const Channel channel;
    const Id calling = caller(channel);
    make_queue_pair(calling);
    must(rdma_connect(calling.get(), nullptr));
    const Id asking(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    must(rdma_reject(asking.get(), nullptr, 0));
    channel.take(RDMA_CM_EVENT_REJECTED);
  }

  void go_through(int cycles) {
    for (int i = 0; i < cycles; ++i) {
      connect_and_part(i % 2 == 0);
      if (i % 4 == 0) be_refused();
    }
    // They keep their places for the time that the protocol wants.
    EXPECT_TRUE(soon([] { return held().connections == 0; })) << held().connections;
    if (kSanitized) return;
    // Numbers of queue pairs rest in a list whose length depends on how fast we were; the next one empties
    // it.
    std::this_thread::sleep_for(
        std::chrono::nanoseconds((engine::QueuePairTable::kRest + milliseconds(1)).ns));
    connect_and_part(true);
    EXPECT_TRUE(soon([] { return held().connections == 0; })) << held().connections;
  }
};

/// Requests that are given up before the program has seen them (a REQ, and a REJ at once).
TEST_F(Leaks, RequestsThatWereNotTakenAndWereGivenUp_ExpectNoEventAndNoPlaceLeft) {
  listen(4);
  const size_t before = held().connections;
  const auto devices = rdmacm::devices();
  const auto& server_device = (*devices)[1];
  const uint16_t port = listener.port();
  const cm::Address way{.local = server_device->device().gids().at(1),
                        .remote = Gid::from_ipv4({192, 0, 2, 99}),
                        .link = {{2, 1, 0, 0, 0, 1}}};
  struct Nowhere final : cm::MadSink {
    cm::Sent send(const cm::Address&, const wire::CmMad&) override { return cm::Sent::kYes; }
  } nowhere;
  const auto come = [&](wire::CmMessage message) {
    std::array<std::byte, wire::kMadBytes> bytes;
    wire::write_cm(bytes.data(), {1, 0, std::move(message)});
    EXPECT_EQ(server_device->manage([&](engine::Gsi& services, Instant now) {
      services.agent().receive(way, bytes, now, nowhere);
    }),
              0);
  };
  wire::CmReq req;
  req.service = wire::service_of(wire::PortSpace::kTcp, port);
  req.path_mtu = 3;
  req.primary.local_gid = way.remote;
  req.primary.remote_gid = way.local;
  wire::write_ip_cm(req.private_data.data(),
                    {.ipv4 = true, .source_port = 1, .source = way.remote, .destination = way.local});
  for (uint32_t i = 1; i <= 20'000; ++i) {
    req.local = {i};
    req.qp = {i};
    come(req);
    if (i == 1) {
      EXPECT_TRUE(server_channel.readable(1000));
    }
    come(wire::CmRej{.local = {i}, .reason = wire::RejectReason::kConsumerDefined});
  }
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(held().connections, before);
  connect_and_part(true);
}

TEST_F(Leaks, ThousandsOfConnections_ExpectNothingLeftOfThem) {
  listen();
  go_through(kWarmUp);
  const Held before = held();
  go_through(kCycles);
  const Held after = held();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.queue_pairs, before.queue_pairs);
  EXPECT_EQ(after.regions, before.regions);
  EXPECT_LT(after.heap_bytes, before.heap_bytes + kHeapGrowthMax);
}

}  // namespace
}  // namespace uroce::rdmacm_test
