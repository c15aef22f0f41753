#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "drivers/port/loopback/steering.h"
#include "drivers/registry.h"
#include "port_pair.h"
#include "tests/support/faulty_port.h"

namespace uroce::testing {
namespace {

using drivers::open_port;
using port::Specification;

std::unique_ptr<port::Port> opened(const port::Specification& specification) {
  auto port = open_port(specification);
  if (port) return std::move(*port);
  ADD_FAILURE() << port.error().message;
  return nullptr;
}

/// An IPv4 UDP frame with the given source port.
void write_udp_frame(port::TxFrame& frame, uint16_t source_port) {
  std::memset(frame.data, 0, 60);
  frame.data[12] = std::byte{0x08};
  frame.data[14] = std::byte{0x45};
  frame.data[23] = std::byte{17};
  frame.data[34] = static_cast<std::byte>(source_port >> 8);
  frame.data[35] = static_cast<std::byte>(source_port);
  frame.length = 60;
}

void send_udp(port::PortQueue& queue, uint16_t source_port) {
  port::TxFrame frame;
  ASSERT_EQ(queue.allocate({&frame, 1}), 1);
  write_udp_frame(frame, source_port);
  ASSERT_EQ(queue.transmit({&frame, 1}), 1);
}

/// Source ports of everything that waits on the queue.
std::vector<uint16_t> waiting_ports(port::PortQueue& queue) {
  std::vector<uint16_t> ports;
  port::RxFrame frame;
  while (queue.receive({&frame, 1}) == 1) {
    ports.push_back(static_cast<uint16_t>(std::to_integer<int>(frame.data[34]) << 8 |
                                          std::to_integer<int>(frame.data[35])));
    queue.release({&frame, 1});
  }
  return ports;
}

TEST(Loopback, NeedsNoEal) {
  EXPECT_FALSE(drivers::needs_eal("loopback0"));
  EXPECT_FALSE(drivers::needs_eal("loopback7,steer=round_robin"));
}

TEST(Loopback, RefusesWhatItCannotDoInOneLine) {
  struct Case {
    port::Specification specification;
    int code;
    const char* names;
  };
  const Case cases[] = {
      {{.devargs = "loopback"}, EINVAL, "loopback"},
      {{.devargs = "loopbackX"}, EINVAL, "loopbackX"},
      {{.devargs = "loopback-1"}, EINVAL, "loopback-1"},
      {{.devargs = "loopback0,steer=left"}, EINVAL, "steer=left"},
      {{.devargs = "loopback0,"}, EINVAL, "loopback0,"},
      {{.devargs = "loopback99999999999"}, EINVAL, "loopback99999999999"},
      {{.devargs = "loopback0", .mtu = 100}, EINVAL, "100"},
      {{.devargs = "loopback0", .mtu = 65000}, EMSGSIZE, "65000"},
      {{.devargs = "loopback0", .queues = 0}, ENOTSUP, "0 queues"},
      {{.devargs = "loopback0", .queues = 1000}, ENOTSUP, "1000 queues"},
  };
  for (const Case& c : cases) {
    const auto port = open_port(c.specification);
    ASSERT_FALSE(port) << c.specification.devargs;
    EXPECT_EQ(port.error().code, c.code) << port.error().message;
    EXPECT_NE(port.error().message.find(c.names), std::string::npos) << port.error().message;
    EXPECT_EQ(port.error().message.find('\n'), std::string::npos);
  }
}

TEST(Loopback, AnEndOpensOnce) {
  const auto first = opened({.devargs = "loopback0"});
  const auto second = open_port({.devargs = "loopback0"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EBUSY);
}

TEST(Loopback, MtuAndMacOverridesAreHonoured) {
  const MacAddress mac{{2, 0, 10, 0, 0, 1}};
  const auto port = opened({.devargs = "loopback0", .mtu = 1500, .mac = mac});
  EXPECT_EQ(port->capabilities().link_mtu, 1500u);
  EXPECT_EQ(port->capabilities().frame_bytes_max, 1518u);
  EXPECT_EQ(port->capabilities().mac, mac);
  const auto other = opened({.devargs = "loopback1"});
  EXPECT_EQ(other->capabilities().link_mtu, 9000u);
  EXPECT_NE(other->capabilities().mac, mac);
}

TEST(Loopback, WiresDoNotMeet) {
  const auto a0 = opened({.devargs = "loopback0"});
  const auto b1 = opened({.devargs = "loopback3"});
  const auto b0 = opened({.devargs = "loopback2"});
  ASSERT_EQ(send_frames(b0->queue(0), 5, 1, 100), 1u);
  EXPECT_TRUE(waiting_ports(a0->queue(0)).empty());
  EXPECT_EQ(receive_frames(b1->queue(0), 1), std::vector<int64_t>{5});
}

TEST(Loopback, WhatIsNotReceivedIsLostAndItsBufferComesBack) {
  const auto alone = opened({.devargs = "loopback0"});
  const size_t before = allocate_all(alone->queue(0)).size();
  EXPECT_GT(before, 0u);
  const auto again = opened({.devargs = "loopback4"});
  EXPECT_EQ(send_frames(again->queue(0), 0, 10'000, 64), 10'000u);
  EXPECT_EQ(allocate_all(again->queue(0)).size(), before);
}

TEST(Loopback, FramesLeftUnreadWhenAnEndClosesGoHome) {
  const auto near = opened({.devargs = "loopback0"});
  auto far = opened({.devargs = "loopback1"});
  std::vector<port::TxFrame> all = allocate_all(near->queue(0));
  const size_t count = all.size();
  near->queue(0).free(all);
  ASSERT_EQ(send_frames(near->queue(0), 0, 500, 64), 500u);
  far.reset();
  all = allocate_all(near->queue(0));
  EXPECT_EQ(all.size(), count);
  near->queue(0).free(all);
  far = opened({.devargs = "loopback1"});
  EXPECT_TRUE(waiting_ports(far->queue(0)).empty()) << "frames of before the closing";
  ASSERT_EQ(send_frames(near->queue(0), 9, 1, 64), 1u);
  EXPECT_EQ(receive_frames(far->queue(0), 1), std::vector<int64_t>{9});
}

TEST(Loopback, AFrameOutlivesThePortThatSentIt) {
  auto near = opened({.devargs = "loopback0"});
  const auto far = opened({.devargs = "loopback1"});
  ASSERT_EQ(send_frames(near->queue(0), 77, 1, 2000), 1u);
  near.reset();
  EXPECT_EQ(receive_frames(far->queue(0), 1), std::vector<int64_t>{77});
}

TEST(Loopback, SourcePortDecidesTheQueue) {
  const auto near = opened({.devargs = "loopback0", .queues = 2});
  const auto far = opened({.devargs = "loopback1", .queues = 4});
  std::map<uint16_t, uint16_t> queue_of;
  std::set<uint16_t> used;
  for (int round = 0; round < 2; ++round) {
    for (uint16_t p = 0xC000; p < 0xC040; ++p) send_udp(near->queue(p % 2), p);
    for (uint16_t q = 0; q < 4; ++q) {
      for (const uint16_t p : waiting_ports(far->queue(q))) {
        used.insert(q);
        const auto [it, fresh] = queue_of.emplace(p, q);
        EXPECT_TRUE(fresh || it->second == q) << "port " << p << " moved";
      }
    }
  }
  EXPECT_EQ(queue_of.size(), 64u);
  EXPECT_EQ(used.size(), 4u) << "64 ports reach all four queues";
}

TEST(Loopback, RoundRobinSpreadsOneFlowOverAllQueues) {
  const auto near = opened({.devargs = "loopback0"});
  const auto far = opened({.devargs = "loopback1,steer=round_robin", .queues = 2});
  for (int i = 0; i < 10; ++i) send_udp(near->queue(0), 0xC000);
  EXPECT_EQ(waiting_ports(far->queue(0)).size(), 5u);
  EXPECT_EQ(waiting_ports(far->queue(1)).size(), 5u);
}

TEST(Loopback, AFrameMayBeReleasedThroughAnotherQueueByAnotherThread) {
  const auto near = opened({.devargs = "loopback0"});
  const auto far = opened({.devargs = "loopback1", .queues = 2});
  std::vector<port::TxFrame> all = allocate_all(near->queue(0));
  const size_t count = all.size();
  near->queue(0).free(all);
  for (uint32_t round = 0; round < 200; ++round) {
    ASSERT_EQ(send_frames(near->queue(0), 0, 32, 64), 32u);
    std::array<port::RxFrame, 32> frames;
    ASSERT_EQ(far->queue(0).receive(frames), 32);
    std::thread other([&] { far->queue(1).release(std::span(frames).first(16)); });
    far->queue(0).release(std::span(frames).last(16));
    other.join();
  }
  all = allocate_all(near->queue(0));
  EXPECT_EQ(all.size(), count);
  near->queue(0).free(all);
}

TEST(Loopback, TwoThreadsExchangeFramesInOrder) {
  const auto near = opened({.devargs = "loopback0"});
  const auto far = opened({.devargs = "loopback1"});
  constexpr uint32_t kFrames = 20'000;
  std::thread sender([&] {
    for (uint32_t sent = 0; sent < kFrames;) {
      const uint32_t taken = send_frames(near->queue(0), sent, 1, 64);
      if (taken == 0) std::this_thread::yield();
      sent += taken;
    }
  });
  uint32_t next = 0;
  while (next < kFrames) {
    const std::vector<int64_t> numbers = receive_frames(far->queue(0), 1);
    if (numbers.empty()) break;
    for (const int64_t number : numbers) {
      ASSERT_EQ(number, next);
      ++next;
    }
  }
  sender.join();
  EXPECT_EQ(next, kFrames);
}

TEST(Steering, ReadsNothingBeyondTheFrame) {
  // Every prefix in a block of its own, so that an address sanitizer sees a read past the end.
  std::array<std::byte, 62> whole{};
  whole[12] = std::byte{0x81};
  whole[16] = std::byte{0x08};
  whole[18] = std::byte{0x4F};
  whole[27] = std::byte{17};
  for (size_t length = 0; length <= whole.size(); ++length) {
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(drivers::steering_hash(prefix), 0u) << length;
  }
}

TEST(Decorator, ATapSeesAndSpoilsEveryFrameThatLeaves) {
  int seen = 0;
  drivers::decorate_ports([&seen](std::unique_ptr<port::Port> port) -> std::unique_ptr<port::Port> {
    return std::make_unique<FaultyPort>(std::move(port), [&seen](std::span<std::byte> frame) {
      ++seen;
      if (seen == 2) frame[20] ^= std::byte{1};
      return seen == 3 ? Fate::kDrop : Fate::kPass;
    });
  });
  const auto near = opened({.devargs = "loopback0"});
  drivers::decorate_ports(nullptr);
  const auto far = opened({.devargs = "loopback1"});
  ASSERT_EQ(send_frames(near->queue(0), 1, 4, 100), 4u);
  EXPECT_EQ(receive_frames(far->queue(0), 3), (std::vector<int64_t>{1, -1, 4}));
  EXPECT_EQ(seen, 4);
}

TEST(Registry, UnknownPortIsNamed) {
  const auto port = open_port({.devargs = ""});
  ASSERT_FALSE(port);
}

}  // namespace
}  // namespace uroce::testing
