#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "ends.h"
#include "engine/queue_pair_table.h"
#include "rdmacm/device.h"
#include "support/soon.h"

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
    EXPECT_EQ(device->manage([&](engine::GeneralServices& services, Instant) {
      all.connections += services.agent().connections();
    }),
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
