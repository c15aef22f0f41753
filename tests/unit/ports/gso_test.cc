// Packet sockets that send GSO frames: what arrives is what was sent, whichever way it was divided.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "drivers/port/packet/identifications.h"
#include "drivers/registry.h"
#include "kernel_links.h"
#include "wire/frame.h"
#include "wire/packet.h"

namespace uroce::testing {
namespace {

using Bytes = std::vector<std::byte>;

Gid address(bool ipv4, uint8_t host) {
  if (ipv4) return Gid::from_ipv4({192, 0, 2, host});
  Gid gid;
  gid.bytes = {0x20, 0x01, 0x0D, 0xB8};
  gid.bytes[15] = host;
  return gid;
}

class Gso : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!no_kernel_links().empty()) GTEST_SKIP() << no_kernel_links();
    ASSERT_TRUE(make_veth("near", "far", 1500));
  }

  void open(const std::string& near_gso, const std::string& far_gso) {
    near_ = open_end("packet0,iface=near,gso=" + near_gso);
    far_ = open_end("packet1,iface=far,gso=" + far_gso);
    ASSERT_TRUE(near_ != nullptr && far_ != nullptr);
  }

  static std::unique_ptr<port::Port> open_end(const std::string& devargs) {
    auto port = drivers::open_port({.devargs = devargs});
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }

  /// A RoCE packet to the far end, or from it.
  [[nodiscard]] Bytes frame(uint32_t payload, uint32_t number, bool to_far = true) const {
    const bool ipv4 = GetParam();
    const MacAddress near = near_->capabilities().mac;
    const MacAddress far = far_->capabilities().mac;
    const wire::FrameTemplate path({.source_mac = to_far ? near : far,
                                    .destination_mac = to_far ? far : near,
                                    .source = address(ipv4, to_far ? 1 : 2),
                                    .destination = address(ipv4, to_far ? 2 : 1)});
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kUc, wire::Operation::kSendOnly);
    headers.bth.psn = Psn(number);
    Bytes made(wire::frame_bytes(path, headers.bth.opcode, payload));
    std::byte* const to = wire::write_headers(made, path, headers, payload);
    for (uint32_t i = 0; i < payload; ++i) to[i] = static_cast<std::byte>(number * 7 + i);
    wire::finish_frame(made, path, headers.bth.opcode, payload);
    return made;
  }

  static void send(port::Port& from, const std::vector<Bytes>& frames) {
    std::vector<port::TxFrame> out(frames.size());
    ASSERT_EQ(from.queue(0).allocate(out), out.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      std::memcpy(out[i].data, frames[i].data(), frames[i].size());
      out[i].length = static_cast<uint32_t>(frames[i].size());
    }
    ASSERT_EQ(from.queue(0).transmit(out), out.size());
  }

  /// In bursts of so many at most.
  static std::vector<Bytes> receive(port::Port& at, size_t count, size_t burst = 64) {
    std::vector<Bytes> frames;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (frames.size() < count && std::chrono::steady_clock::now() < deadline) {
      std::vector<port::RxFrame> in(burst);
      in.resize(at.queue(0).receive(in));
      for (const port::RxFrame& each : in) frames.emplace_back(each.data, each.data + each.length);
      at.queue(0).release(in);
    }
    return frames;
  }

  /// From now on the near end knows what the far one takes.
  void introduce() {
    send(*far_, {frame(4, 0, false)});
    ASSERT_EQ(receive(*near_, 1), std::vector<Bytes>{frame(4, 0, false)});
  }

  /// 65 equal segments, which is more than one GSO frame takes, and a shorter one.
  [[nodiscard]] std::vector<Bytes> stream() const {
    std::vector<Bytes> frames;
    for (uint32_t i = 0; i < 65; ++i) frames.push_back(frame(1024, i));
    frames.push_back(frame(8, 65));
    return frames;
  }

  /// A GSO frame is one.
  static uint64_t packets_received(const std::string& interface) {
    std::ifstream devices("/proc/net/dev");
    for (std::string line; std::getline(devices, line);) {
      std::istringstream words(line);
      std::string name;
      uint64_t bytes = 0;
      uint64_t packets = 0;
      if (words >> name >> bytes >> packets && name == interface + ":") return packets;
    }
    ADD_FAILURE() << "the kernel does not know " << interface;
    return 0;
  }

  std::unique_ptr<port::Port> near_;
  std::unique_ptr<port::Port> far_;
};

TEST_P(Gso, FramesOfOneFlowArriveAsTheyWereSent) {
  open("on", "on");
  introduce();
  const std::vector<Bytes> frames = stream();
  const uint64_t before = packets_received("far");
  send(*near_, frames);
  EXPECT_EQ(receive(*far_, frames.size(), 7), frames);
  // GSO frames of 31 segments, 31 and 2, then of the two that are left for the next burst.
  EXPECT_LE(packets_received("far") - before, 4u);
}

TEST_P(Gso, APeerThatDoesNotSaySoGetsSingleFrames) {
  open("on", "off");
  introduce();
  const std::vector<Bytes> frames = stream();
  send(*near_, frames);
  EXPECT_EQ(receive(*far_, frames.size()), frames);
}

TEST_P(Gso, APeerThatNoLongerSaysSoGetsSingleFrames) {
  open("on", "on");
  introduce();
  far_.reset();
  far_ = open_end("packet1,iface=far,gso=off");
  introduce();
  const std::vector<Bytes> frames = stream();
  send(*near_, frames);
  EXPECT_EQ(receive(*far_, frames.size()), frames);
}

/// As behind a NIC that does not segment: the ICRC of each packet is right for the number that it then has.
TEST_P(Gso, WhatTheKernelDividesAreRightPackets) {
  open("on", "on");
  introduce();
  ASSERT_TRUE(ip("link set near gso_max_size 2000"));
  const std::vector<Bytes> frames = stream();
  const uint64_t before = packets_received("far");
  send(*near_, frames);
  const std::vector<Bytes> arrived = receive(*far_, frames.size());
  EXPECT_GE(packets_received("far") - before, 64u)
      << "but for the last two, which are shorter than the limit";
  ASSERT_EQ(arrived.size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    wire::Packet packet;
    ASSERT_EQ(wire::parse_frame(arrived[i], packet).result, wire::ParseResult::kRoce) << i;
    EXPECT_TRUE(wire::icrc_matches(packet)) << i;
    EXPECT_EQ(packet.headers.bth.psn, Psn(static_cast<uint32_t>(i)));
  }
}

/// Each burst takes places in the receiver's ring before that has its turn.
TEST_P(Gso, TheBurstsOfManyQueuePairsWaitForTheReceiver) {
  open("on", "on");
  introduce();
  constexpr size_t kBursts = 300;
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 64; ++i) frames.push_back(frame(1024, i));
  for (size_t i = 0; i < kBursts; ++i) send(*near_, frames);
  EXPECT_EQ(far_->queue(0).dropped(), 0u);
  for (size_t i = 0; i < kBursts; ++i) ASSERT_EQ(receive(*far_, frames.size()), frames) << i;
}

TEST_P(Gso, WhatTheRingHasNoRoomForIsCounted) {
  open("on", "on");
  const std::vector<Bytes> frames(50, frame(1024, 0));
  size_t sent = 0;
  for (; sent < 2000; sent += frames.size()) send(*near_, frames);
  const uint64_t dropped = far_->queue(0).dropped();
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(far_->queue(0).dropped(), dropped) << "asking changes nothing";
  EXPECT_EQ(receive(*far_, sent - dropped).size(), sent - dropped);
  std::vector<port::RxFrame> more(1);
  EXPECT_EQ(far_->queue(0).receive(more), 0);
}

/// Frames of two queue pairs have UDP source ports of their own, and those with a tag are single.
TEST_P(Gso, OtherFlowsAreNotMixed) {
  open("on", "on");
  introduce();
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 20; ++i) {
    Bytes made = frame(256, i);
    // Of the UDP source port.
    made[made.size() - 256 - 4 - 12 - 7] = static_cast<std::byte>(i / 3);
    frames.push_back(std::move(made));
  }
  send(*near_, frames);
  EXPECT_EQ(receive(*far_, frames.size()), frames);
}

INSTANTIATE_TEST_SUITE_P(Addresses, Gso, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "IPv4" : "IPv6"; });

TEST(Identifications, TurnAnIcrcIntoThatOfAnotherNumber) {
  drivers::Identifications identifications;
  for (const uint32_t payload : {0u, 4u, 1024u, 4096u}) {
    std::vector<std::byte> packet(20 + 8 + 12 + payload, std::byte{0x3C});
    packet[0] = std::byte{0x45};
    packet[4] = packet[5] = std::byte{0};
    const uint32_t first = wire::icrc_of(packet);
    for (const size_t number : {1u, 2u, 31u, 63u}) {
      packet[5] = static_cast<std::byte>(number);
      EXPECT_EQ(first ^ identifications.of(packet.size())[number], wire::icrc_of(packet)) << payload;
    }
    packet[5] = std::byte{0};
  }
}

}  // namespace
}  // namespace uroce::testing
