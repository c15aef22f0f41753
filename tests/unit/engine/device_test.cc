// Devices as a program uses them: with the threads that turn their pollers, in real time.
#include "engine/device/device.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "connected_pair.h"
#include "loopback.h"
#include "tests/support/soon.h"

namespace uroce::engine {
namespace {

Configuration configuration_of(PollerMode mode, uint16_t pollers = 1) {
  Configuration configuration = embedded_pair();
  configuration.poller_mode = mode;
  configuration.pollers_per_device = pollers;
  return configuration;
}

/// Names of the threads of this process that are ours, sorted.
std::vector<std::string> own_threads() {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.starts_with("uroce")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void expect_own_threads(const std::vector<std::string>& names) {
  EXPECT_TRUE(soon([&] { return own_threads() == names; }))
      << testing::PrintToString(own_threads()) << " instead of " << testing::PrintToString(names);
}

class DeviceModes : public testing::TestWithParam<std::pair<PollerMode, uint16_t>> {};

TEST_P(DeviceModes, CarryWritesAndSendsBothWays) {
  Loopback loopback(configuration_of(GetParam().first, GetParam().second));
  Side left(loopback.devices[0], 100'000);
  Side right(loopback.devices[1], 100'000);
  ASSERT_EQ(connect_pair(left, right), 0);
  for (uint64_t round = 0; round < 20; ++round) {
    fill(left.buffer(), round);
    left.post_write(right, 100'000, round);
    const queue::Completion write = left.wait();
    EXPECT_EQ(write.status, queue::CompletionStatus::kSuccess);
    EXPECT_EQ(write.wr_id, round);
    ASSERT_EQ(left.buffer(), right.buffer());

    fill(right.buffer(), ~round);
    left.post_receive(100'000, 1000);
    right.post_send(100'000, 2000);
    const queue::Completion receive = left.wait();
    EXPECT_EQ(receive.wr_id, 1000u);
    EXPECT_EQ(receive.bytes, 100'000u);
    EXPECT_EQ(right.wait().wr_id, 2000u);
    ASSERT_EQ(left.buffer(), right.buffer());
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceModes,
                         testing::Values(std::pair(PollerMode::kInline, 1), std::pair(PollerMode::kInline, 2),
                                         std::pair(PollerMode::kDedicated, 1),
                                         std::pair(PollerMode::kDedicated, 2)));

TEST(TakeOver, AnswersWhileTheApplicationDoesNotPoll) {
  Loopback loopback;
  Side left(loopback.devices[0], 1 << 20);
  Side right(loopback.devices[1], 1 << 20);
  ASSERT_EQ(connect_pair(left, right), 0);
  fill(left.buffer(), 1);
  // More than the turns of the posting call can do; from then on no call is made.
  left.post_write(right, 1 << 20);
  std::optional<queue::Completion> completion;
  while (!completion) {
    std::this_thread::yield();
    completion = left.look();
  }
  EXPECT_EQ(completion->status, queue::CompletionStatus::kSuccess);
  EXPECT_EQ(left.buffer(), right.buffer());
}

TEST(TakeOver, ChangesHandsManyTimes) {
  Loopback loopback;
  Side left(loopback.devices[0], 8192);
  Side right(loopback.devices[1], 8192);
  ASSERT_EQ(connect_pair(left, right), 0);
  for (uint64_t round = 0; round < 300; ++round) {
    fill(left.buffer(), round);
    left.post_write(right, 8192, round);
    // By turns: busy polling, pauses around the length of the take-over, looking only.
    std::optional<queue::Completion> completion;
    while (!completion) {
      if (round % 3 == 1) usleep(static_cast<useconds_t>(30 + round % 50));
      completion = round % 3 == 2 ? left.look() : left.poll();
    }
    EXPECT_EQ(completion->wr_id, round);
    ASSERT_EQ(left.buffer(), right.buffer());
  }
}

TEST(Device, ServesManyThreadsAtOnce) {
  Loopback loopback;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int life = 0; life < 5; ++life) {
        Side left(loopback.devices[i % 2], 30'000);
        Side right(loopback.devices[(i / 2) % 2], 30'000);
        ASSERT_EQ(connect_pair(left, right), 0);
        for (uint64_t round = 0; round < 5; ++round) {
          fill(left.buffer(), i * 100 + round);
          left.post_write(right, 30'000, round);
          EXPECT_EQ(left.wait().status, queue::CompletionStatus::kSuccess);
          ASSERT_EQ(left.buffer(), right.buffer());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Device, GoesWithTrafficUnderWay) {
  for (int i = 0; i < 20; ++i) {
    Loopback loopback(configuration_of(i % 2 == 0 ? PollerMode::kInline : PollerMode::kDedicated));
    Side left(loopback.devices[0], 1 << 20);
    Side right(loopback.devices[1], 1 << 20);
    ASSERT_EQ(connect_pair(left, right), 0);
    for (int k = 0; k < 8; ++k) left.post_write(right, 1 << 20);
  }
}

TEST(Device, LeavesNoThreadBehind) {
  expect_own_threads({});
  for (int i = 0; i < 3; ++i) {
    const Loopback loopback;
    // One for both ends of the wire.
    expect_own_threads({"uroce-attend", "uroce-orders", "uroce-stat"});
  }
  expect_own_threads({});
  {
    const Loopback loopback(configuration_of(PollerMode::kDedicated));
    expect_own_threads({"uroce-orders", "uroce-poll-0", "uroce-poll-1", "uroce-stat"});
  }
  expect_own_threads({});
}

TEST(Device, SaysWhenAPeerCannotBeReached) {
  const Loopback loopback;
  Side side(loopback.devices[0], 100);
  Device& device = *loopback.devices[0];
  qp::Attributes attributes;
  attributes.state = qp::State::kInit;
  ASSERT_EQ(
      device.modify_queue_pair(side.queue_pair(), attributes,
                               qp::kMaskState | qp::kMaskPkeyIndex | qp::kMaskPort | qp::kMaskAccessFlags),
      0);
  attributes.state = qp::State::kRtr;
  attributes.path.source = device.gids().at(1);
  const auto connect_to = [&](Gid gid) {
    attributes.path.destination = gid;
    return device.modify_queue_pair(side.queue_pair(), attributes,
                                    qp::kMaskState | qp::kMaskAv | qp::kMaskPathMtu | qp::kMaskDestQpn |
                                        qp::kMaskRqPsn | qp::kMaskMaxDestRdAtomic | qp::kMaskMinRnrTimer);
  };
  EXPECT_EQ(connect_to(Gid::from_ipv4({198, 51, 100, 1})), EHOSTUNREACH);  // outside our network
  EXPECT_EQ(connect_to(Gid::from_ipv4({192, 0, 2, 99})), ETIMEDOUT);       // inside, but no host's
  EXPECT_EQ(connect_to(loopback.devices[1]->gids().at(1)), 0);
}

TEST(Device, TellsWhatItIs) {
  const Loopback loopback;
  const Device& device = *loopback.devices[1];
  EXPECT_EQ(device.name(), "uroce1");
  EXPECT_EQ(device.mac(), device.port_capabilities().mac);
  const auto& m = device.mac().bytes;
  EXPECT_EQ(device.guid(), uint64_t{m[0] ^ 2u} << 56 | uint64_t{m[1]} << 48 | uint64_t{m[2]} << 40 |
                               uint64_t{0xFFFE} << 24 | uint64_t{m[3]} << 16 | uint64_t{m[4]} << 8 | m[5]);
  EXPECT_EQ(device.gids().size(), 2u);
  EXPECT_EQ(device.gids().at(1), Gid::from_ipv4({192, 0, 2, 2}));
  EXPECT_TRUE(device.link_up());
  EXPECT_EQ(device.path_mtu_max(), PathMtu::k4096);
  const Device::Information information = device.information();
  EXPECT_EQ(information.poller_mode, PollerMode::kInline);
  EXPECT_EQ(information.pollers, 1);
  EXPECT_FALSE(information.eal);
}

TEST(Device, HasThePathMtuThatFitsTheLink) {
  // What surrounds a payload most is IPv6 and a WRITE with immediate of XRC: 88 bytes.
  const std::pair<uint32_t, PathMtu> cases[] = {
      {576, PathMtu::k256},   {600, PathMtu::k512},   {1500, PathMtu::k1024}, {2136, PathMtu::k2048},
      {4183, PathMtu::k2048}, {4184, PathMtu::k4096}, {9000, PathMtu::k4096}};
  for (const auto& [link, path] : cases) {
    Configuration configuration = embedded_pair();
    configuration.devices[0].mtu = link;
    const Loopback loopback(configuration);
    EXPECT_EQ(loopback.devices[0]->link_mtu(), link);
    EXPECT_EQ(loopback.devices[0]->path_mtu_max(), path) << link;
  }
}

TEST(Stack, OpensADeviceOnceForAll) {
  auto stack = std::move(Stack::create(embedded_pair()).value());
  auto first = *stack->open(0);
  auto second = *stack->open(0);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(stack->open(7).error().code, ENODEV);
  first.reset();
  second.reset();
  // Closed by now: the same port can be opened again.
  EXPECT_TRUE(stack->open(1));
}

TEST(Stack, OpensAgainWhatAnotherThreadIsClosing) {
  auto stack = std::move(Stack::create(embedded_pair()).value());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int life = 0; life < 50; ++life) {
        const auto device = stack->open(i % 2);
        EXPECT_TRUE(device) << device.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Stack, NamesTheDeviceThatCannotBeOpened) {
  const auto error_of = [](auto change) {
    Configuration configuration = embedded_pair();
    change(configuration);
    auto stack = std::move(Stack::create(configuration).value());
    const auto device = stack->open(0);
    expect_own_threads({});
    return device ? Error{} : device.error();
  };
  const Error port = error_of([](auto& c) { c.devices[0].port = "loopback0,steer=left"; });
  EXPECT_EQ(port.code, EINVAL);
  EXPECT_TRUE(port.message.starts_with("uroce0: loopback0,steer=left: ")) << port.message;
  const Error mtu = error_of([](auto& c) { c.devices[1].mtu = 9300; });
  EXPECT_EQ(mtu.code, EMSGSIZE);
  EXPECT_TRUE(mtu.message.starts_with("uroce1: ")) << mtu.message;
  const Error core = error_of([](auto& c) { c.cores = {4000}; });
  EXPECT_EQ(core.code, EINVAL);
  EXPECT_EQ(core.message, "poller.cores: this process may not use CPU 4000");
  // Nothing was left open.
  const Loopback loopback;
}

}  // namespace
}  // namespace uroce::engine
