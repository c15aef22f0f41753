// Frames of AF_XDP beside the kernel that are longer than the chunk of one page in which the kernel takes
// them.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "drivers/registry.h"
#include "kernel_links.h"

namespace uroce::testing {
namespace {

constexpr uint16_t kUseSg = 1 << 4;  // XDP_USE_SG, which headers before Linux 6.6 do not have
bool kernel_is_old = false;

}  // namespace
}  // namespace uroce::testing

/// The drivers' bind(2), which a kernel before Linux 6.6 refuses with the flag of long frames.
extern "C" int bind(int socket, const sockaddr* address, socklen_t bytes) noexcept {
  if (uroce::testing::kernel_is_old && address->sa_family == AF_XDP) {
    sockaddr_xdp asked;
    std::memcpy(&asked, address, sizeof asked);
    if ((asked.sxdp_flags & uroce::testing::kUseSg) != 0) {
      errno = EINVAL;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_bind, socket, address, bytes));
}

namespace uroce::testing {
namespace {

constexpr size_t kHeaderBytes = 14 + 20 + 8;
constexpr uint32_t kChunkFrameBytes = 3840;
constexpr uint32_t kTwoChunkFrameBytes = 7936;
constexpr std::chrono::seconds kLimit{20};

/// RoCE to a multicast group, which the program takes on each interface, with `length` bytes that follow from
/// the number.
std::vector<std::byte> frame_of(uint32_t number, size_t length) {
  std::vector<std::byte> frame(length);
  const std::array<uint8_t, kHeaderBytes> headers = {
      0x01,        0x00, 0x5E, 1,  2,    3,  // to
      2,           0,    0,    0,  0,    1,  // from
      0x08,        0x00, 0x45, 0,  0,    0,    0,
      0,           0x40, 0,    64, 17,   0,    0,
      192,         0,    2,    1,  // IPv4
      239,         1,    2,    3,  0xC0, 0x00, static_cast<uint8_t>(4791 >> 8),
      4791 & 0xFF, 0,    0,    0,  0};
  std::memcpy(frame.data(), headers.data(), headers.size());
  const uint16_t ip_bytes = htons(static_cast<uint16_t>(length - 14));
  const uint16_t udp_bytes = htons(static_cast<uint16_t>(length - 34));
  std::memcpy(&frame[16], &ip_bytes, sizeof ip_bytes);
  std::memcpy(&frame[38], &udp_bytes, sizeof udp_bytes);
  for (size_t i = kHeaderBytes; i < length; ++i)
    frame[i] = static_cast<std::byte>((i * 31 + number * 7 + (i >> 8)) & 0xFF);
  return frame;
}

class XdpFrames : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
    make(9000);
    if (error_.find("this build has no AF_XDP") != std::string::npos ||
        error_.find("before Linux 6.6") != std::string::npos)
      GTEST_SKIP() << error_;
    ASSERT_EQ(error_, "");
  }
  void TearDown() override { kernel_is_old = false; }

  void make(unsigned mtu) {
    near_.reset();
    far_.reset();
    ASSERT_TRUE(make_veth("near", "far", mtu));
    far_ = open("far");
    near_ = open("near");
  }
  std::unique_ptr<port::Port> open(const char* interface) {
    auto opened = drivers::open_port({.kernels_interface = interface, .kernel_path = port::KernelPath::kXdp});
    error_ = opened ? "" : opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }

  /// True once the port has taken it, with its buffer.
  static bool send(port::PortQueue& queue, const std::vector<std::byte>& frame) {
    port::TxFrame out;
    if (queue.allocate({&out, 1}) != 1) return false;
    EXPECT_LE(frame.size(), out.capacity);
    std::memcpy(out.data, frame.data(), frame.size());
    out.length = static_cast<uint32_t>(frame.size());
    if (queue.transmit({&out, 1}) == 1) return true;
    queue.free({&out, 1});
    return false;
  }
  /// The next frame that arrives; empty after a time.
  static std::vector<std::byte> next(port::PortQueue& queue) {
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < deadline) {
      port::RxFrame in;
      if (queue.receive({&in, 1}) == 0) continue;
      std::vector<std::byte> bytes(in.data, in.data + in.length);
      queue.release({&in, 1});
      return bytes;
    }
    return {};
  }
  void expect_carried(uint32_t number, size_t length) {
    const auto frame = frame_of(number, length);
    ASSERT_TRUE(send(near_->queue(0), frame)) << number << ", " << length << " bytes";
    ASSERT_EQ(next(far_->queue(0)), frame) << number << ", " << length << " bytes";
  }

  std::unique_ptr<port::Port> near_;
  std::unique_ptr<port::Port> far_;
  std::string error_;
};

TEST_F(XdpFrames, ArriveWholeWhateverTheirLength) {
  EXPECT_EQ(near_->capabilities().link_mtu, kTwoChunkFrameBytes - 18);
  uint32_t number = 0;
  for (const size_t length : {size_t{60}, size_t{138}, size_t{kChunkFrameBytes - 1}, size_t{kChunkFrameBytes},
                              size_t{kChunkFrameBytes + 1}, size_t{4096}, size_t{4097}, size_t{4170},
                              size_t{4218}, size_t{kTwoChunkFrameBytes - 1}, size_t{kTwoChunkFrameBytes}})
    expect_carried(number++, length);
}

/// Many times as many as there are buffers, of which none is lost on the way.
TEST_F(XdpFrames, LongAndShortOnesGiveTheirBuffersBack) {
  for (uint32_t number = 0; number < 40'000; ++number) {
    expect_carried(number, number % 3 == 0 ? 200 : kChunkFrameBytes + number % 400);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(near_->queue(0).dropped() + far_->queue(0).dropped(), 0u);
}

/// A burst of one frame takes both of its pieces, and none of the next one's.
TEST_F(XdpFrames, BurstsOfOneReceiveManyLongOnes) {
  constexpr uint32_t kCount = 64;
  for (uint32_t number = 0; number < kCount; ++number)
    ASSERT_TRUE(send(near_->queue(0), frame_of(number, 4170)));
  for (uint32_t number = 0; number < kCount; ++number)
    ASSERT_EQ(next(far_->queue(0)), frame_of(number, 4170)) << number;
}

/// A peer may send what no buffer holds.
TEST_F(XdpFrames, TooLongOnesAreDroppedAndCounted) {
  const int socket = ::socket(AF_PACKET, SOCK_RAW, 0);
  ASSERT_GE(socket, 0);
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex("near"));
  constexpr uint32_t kCount = 10'000;
  uint32_t sent = 0;
  port::PortQueue& queue = far_->queue(0);
  port::RxFrame in;
  const auto too_long = frame_of(1, kTwoChunkFrameBytes + 1);
  for (; sent < kCount; ++sent) {
    ASSERT_EQ(
        sendto(socket, too_long.data(), too_long.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
        static_cast<ssize_t>(too_long.size()))
        << std::strerror(errno);
    ASSERT_EQ(queue.receive({&in, 1}), 0);
  }
  close(socket);
  expect_carried(7, 4170);
  EXPECT_EQ(queue.dropped(), sent);
}

TEST_F(XdpFrames, OfOneChunkNeedNoNewKernel) {
  kernel_is_old = true;
  make(kChunkFrameBytes - 18);
  ASSERT_EQ(error_, "");
  EXPECT_EQ(near_->capabilities().link_mtu, kChunkFrameBytes - 18);
  expect_carried(0, kChunkFrameBytes);
  expect_carried(1, 138);
}

TEST_F(XdpFrames, OfTwoAreRefusedByAnOldOneWithTheReason) {
  kernel_is_old = true;
  make(kChunkFrameBytes - 17);
  EXPECT_EQ(
      error_,
      "near: an MTU of 3823 is more than this kernel's AF_XDP carries (3822: one page for a frame, before "
      "Linux 6.6; mode \"packet\" carries it)");
}

}  // namespace
}  // namespace uroce::testing
