// What every port promises (port/port.h), asked of each port that this machine can open.

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "joined_ports.h"
#include "kernel_links.h"
#include "port_pair.h"

namespace uroce::testing {
namespace {

class PortContract : public ::testing::TestWithParam<JoinedPorts> {
 protected:
  void SetUp() override {
    if (GetParam().by_kernel && !no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
    pair_ = GetParam().open();
    ASSERT_NE(pair_.near, nullptr);
    ASSERT_NE(pair_.far, nullptr);
    poll_once();
  }

  /// A receiver makes room for the sender when it polls, as pollers do all the time; on memif only then.
  void poll_once() {
    port::RxFrame frame;
    ASSERT_EQ(near().receive({&frame, 1}), 0);
    ASSERT_EQ(far().receive({&frame, 1}), 0);
  }

  port::PortQueue& near() { return pair_.near->queue(0); }
  port::PortQueue& far() { return pair_.far->queue(0); }
  /// The kernel lets the room for a VLAN tag be used by nothing else.
  [[nodiscard]] uint32_t longest() const {
    const port::Capabilities& capabilities = pair_.near->capabilities();
    return GetParam().by_kernel ? capabilities.link_mtu + 14 : capabilities.frame_bytes_max;
  }

  /// Bursts from one end to the other, and what arrives of them.
  void expect_bursts(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(send_frames(near(), i * 32, 32, 1000), 32u) << i;
      const size_t arrived = receive_frames(far(), 32, GetParam().by_kernel ? kSoon : kHangs).size();
      if (!GetParam().by_kernel) {
        ASSERT_EQ(arrived, 32u) << i;
      }
    }
  }

  PortPair pair_;
};

TEST_P(PortContract, TellsWhatItCarries) {
  const port::Capabilities& capabilities = pair_.near->capabilities();
  EXPECT_FALSE(capabilities.description.empty());
  EXPECT_GE(capabilities.queues, 1);
  EXPECT_GE(capabilities.frame_bytes_max, capabilities.link_mtu + 14);
  EXPECT_EQ(&pair_.near->queue(0), &pair_.near->queue(0));
  EXPECT_NE(capabilities.mac, MacAddress{});
  EXPECT_EQ(capabilities.mac.bytes[0] & 1, 0) << "a port's MAC is not a group address";
}

TEST_P(PortContract, CarriesItsRdmaPathMtu) {
  constexpr uint32_t kHeaders = 14u + 40 + 8 + 12 + 16 + 4 + 4;
  EXPECT_GE(longest(), kHeaders + GetParam().path_mtu);
  if (GetParam().path_mtu < 4096) {
    EXPECT_LT(longest(), kHeaders + 2 * GetParam().path_mtu);
  }
}

TEST_P(PortContract, IsSilentWhenNoEndSends) {
  std::array<port::RxFrame, 4> frames;
  EXPECT_EQ(near().receive(frames), 0);
  EXPECT_EQ(far().receive(frames), 0);
}

TEST_P(PortContract, FramesOfEverySizeArriveIntactAndInOrder) {
  uint32_t number = 0;
  for (uint32_t length = 60; length <= longest();
       length = length == longest() ? length + 1 : std::min(length + 211, longest())) {
    ASSERT_EQ(send_frames(near(), number, 1, length), 1u) << length;
    ASSERT_EQ(receive_frames(far(), 1), std::vector<int64_t>{number}) << length << " bytes";
    ++number;
  }
}

TEST_P(PortContract, LengthIsKept) {
  for (const uint32_t length : {60u, 61u, 1514u, std::min(4178u, longest()), longest()}) {
    ASSERT_EQ(send_frames(near(), 7, 1, length), 1u);
    port::RxFrame frame;
    uint16_t received = 0;
    for (int i = 0; i < 1'000'000 && received == 0; ++i) received = far().receive({&frame, 1});
    ASSERT_EQ(received, 1) << length << " bytes";
    EXPECT_EQ(frame.length, length);
    far().release({&frame, 1});
  }
}

TEST_P(PortContract, ABurstKeepsItsOrderBothWays) {
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 500);
  ASSERT_EQ(send_frames(near(), 500, 100, 200), 100u);
  ASSERT_EQ(send_frames(far(), 500, 100, 200), 100u);
  EXPECT_EQ(receive_frames(far(), 100), expected);
  EXPECT_EQ(receive_frames(near(), 100), expected);
}

/// Ports that lose nothing: all but the kernel's, which takes every frame and may lose it.
class LosslessPortContract : public PortContract {};

TEST_P(LosslessPortContract, AFullQueueTakesFewerAndLosesNothingItTook) {
  uint32_t taken = 0;
  for (; taken < 100'000; ++taken) {
    if (send_frames(near(), taken, 1, 64) == 0) break;
  }
  ASSERT_LT(taken, 100'000u) << "a queue has an end";
  std::vector<int64_t> expected(taken);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(receive_frames(far(), taken), expected);
  poll_once();
  // Room again.
  EXPECT_EQ(send_frames(near(), 1, 1, 64), 1u);
  EXPECT_EQ(receive_frames(far(), 1), std::vector<int64_t>{1});
}

TEST_P(PortContract, AllocateUntilDryAndEveryBufferComesBack) {
  // Traffic first, so that buffers have gone all the ways there are.
  expect_bursts(50);
  std::vector<port::TxFrame> all = allocate_all(near());
  const size_t count = all.size();
  EXPECT_GE(count, 256u) << "a poller's batch and a full ring need buffers";
  for (const port::TxFrame& frame : all) EXPECT_GE(frame.capacity, longest());
  near().free(all);

  expect_bursts(200);
  all = allocate_all(near());
  // A driver may keep a ring's worth of sent buffers until it sends again; what matters is that they do not
  // drain away.
  EXPECT_GE(all.size() + GetParam().buffers_kept, count);
  near().free(all);
}

TEST_P(PortContract, ALoopedFrameIsReceivedWithoutLeaving) {
  const size_t before = [&] {
    const std::vector<port::TxFrame> all = allocate_all(near());
    near().free(all);
    return all.size();
  }();
  for (uint32_t i = 0; i < 5000; ++i) {
    port::TxFrame frame;
    ASSERT_EQ(near().allocate({&frame, 1}), 1);
    write_frame(frame, i, 300);
    frame.to_self = true;
    const port::RxFrame looped = near().loop(frame);
    ASSERT_EQ(looped.length, 300u);
    ASSERT_EQ(read_frame(looped), i);
    near().release({&looped, 1});
  }
  const std::vector<port::TxFrame> all = allocate_all(near());
  EXPECT_EQ(all.size(), before);
  near().free(all);
}

TEST_P(PortContract, OpensAgainAfterClosing) {
  pair_ = {};
  pair_ = GetParam().open();
  ASSERT_NE(pair_.near, nullptr);
  ASSERT_NE(pair_.far, nullptr);
  poll_once();
  ASSERT_EQ(send_frames(far(), 3, 1, 128), 1u);
  EXPECT_EQ(receive_frames(near(), 1), std::vector<int64_t>{3});
}

std::vector<JoinedPorts> lossless_ports() {
  std::vector<JoinedPorts> ports = joined_ports();
  std::erase_if(ports, [](const JoinedPorts& joined) { return joined.by_kernel; });
  return ports;
}

std::string name_of(const ::testing::TestParamInfo<JoinedPorts>& instance) { return instance.param.name; }

INSTANTIATE_TEST_SUITE_P(Ports, PortContract, ::testing::ValuesIn(joined_ports()), name_of);
INSTANTIATE_TEST_SUITE_P(Ports, LosslessPortContract, ::testing::ValuesIn(lossless_ports()), name_of);

}  // namespace
}  // namespace uroce::testing
