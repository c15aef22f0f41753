#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <cerrno>
#include <cstring>

#include "child.h"
#include "drivers/port/kernel/devargs.h"
#include "drivers/port/kernel/pmd_traits.h"
#include "drivers/registry.h"
#include "eal.h"
#include "open_pair.h"

namespace uroce::testing {
namespace {

using drivers::Devargs;
using drivers::open_port;
using port::Specification;

TEST(Devargs, AreReadAndWrittenBack) {
  Devargs devargs("net_memif0,role=server,flag,bsize=2048");
  EXPECT_EQ(devargs.name(), "net_memif0");
  EXPECT_EQ(devargs.value("role"), "server");
  EXPECT_EQ(devargs.value("flag"), "");
  EXPECT_EQ(devargs.value("size"), std::nullopt);
  EXPECT_EQ(devargs.number("bsize"), 2048u);
  EXPECT_EQ(devargs.number("role"), std::nullopt);
  devargs.set("bsize", "8192");
  devargs.set("new", "1");
  EXPECT_EQ(devargs.text(), "net_memif0,role=server,flag,bsize=8192,new=1");
  EXPECT_EQ(Devargs("0000:01:00.0").text(), "0000:01:00.0");
}

TEST(PmdTraits, EveryDeviceHasARow) {
  EXPECT_EQ(drivers::pmd_traits("net_memif7").prefix, "net_memif");
  EXPECT_EQ(drivers::pmd_traits("net_af_packet0").prefix, "net_af_packet");
  EXPECT_EQ(drivers::pmd_traits("0000:01:00.0").prefix, "");
}

TEST(PmdTraits, MemifCarriesWhatItsBuffersHold) {
  const auto limits =
      drivers::link_limits(drivers::pmd_traits("net_memif0"), Devargs("net_memif0,bsize=2048"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits.value().mtu_max, 2048u - 18);
}

TEST(Ethdev, AllButLoopbackNeedsEal) {
  EXPECT_TRUE(drivers::needs_eal("net_ring0"));
  EXPECT_TRUE(drivers::needs_eal("0000:01:00.0"));
  EXPECT_FALSE(drivers::needs_eal("loopback0"));
}

TEST(Ethdev, OnlyRingPairsAreWiresInside) {
  EXPECT_EQ(drivers::wire_of("net_ring2"), drivers::wire_of("net_ring3"));
  EXPECT_NE(drivers::wire_of("net_ring1"), drivers::wire_of("net_ring2"));
  EXPECT_NE(drivers::wire_of("net_ring0"), drivers::wire_of("loopback0"));
  EXPECT_EQ(drivers::wire_of("net_memif0,role=server"), "");
}

TEST(Ethdev, WithoutEalIsAnErrorNotACrash) {
  Child child({"--open", "net_ring0"});
  EXPECT_NE(child.read_line().find("EAL is not running"), std::string::npos);
  EXPECT_EQ(child.finish(), 1);
}

TEST(Ethdev, RefusesWhatItCannotDoInOneLine) {
  ASSERT_EQ(start_eal(), "");
  struct Case {
    port::Specification specification;
    int code;
    const char* names;
  };
  const Case cases[] = {
      {{.devargs = ""}, EINVAL, "no name"},
      {{.devargs = ",role=server"}, EINVAL, "no name"},
      {{.devargs = "net_unheard_of0"}, ENODEV, "net_unheard_of0"},
      {{.devargs = "0000:ff:1f.7"}, ENODEV, "0000:ff:1f.7"},
      {{.devargs = "eth0"}, ENODEV, "eth0"},
      {{.devargs = "net_memif0,colour=red"}, EINVAL, "colour"},
      {{.devargs = "net_memif0,bsize=big"}, EINVAL, "bsize='big'"},
      {{.devargs = "net_memif0,bsize=4294967299"}, EINVAL, "bsize"},
      {{.devargs = "net_memif0", .mtu = 9000}, EMSGSIZE, "9000"},
      {{.devargs = "net_memif0", .queues = 1000}, ENOTSUP, "1000 queues"},
      {{.devargs = "net_memif0", .queues = 0}, ENOTSUP, "0 queues"},
      {{.devargs = "net_ring0", .mtu = 70000}, EMSGSIZE, "70000"},
      {{.devargs = "net_ring0", .mtu = 68}, EINVAL, "68"},
      {{.devargs = "net_af_packet0"}, EINVAL, "iface"},
      {{.devargs = "net_af_packet0,iface=no-such-if"}, ENODEV, "no-such-if"},
      {{.devargs = "net_af_xdp0,iface=an-interface-of-a-very-long-name"}, ENODEV, "an-interface"},
  };
  const uint16_t ports_before = rte_eth_dev_count_avail();
  for (const Case& c : cases) {
    const auto port = open_port(c.specification);
    ASSERT_FALSE(port) << c.specification.devargs;
    EXPECT_EQ(port.error().code, c.code) << port.error().message;
    EXPECT_NE(port.error().message.find(c.names), std::string::npos) << port.error().message;
    EXPECT_EQ(port.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(rte_eth_dev_count_avail(), ports_before) << port.error().message << ": left a device behind";
  }
}

TEST(Ethdev, OpensOnce) {
  ASSERT_EQ(start_eal(), "");
  for (const char* devargs : {"net_ring0", "net_null0"}) {
    const auto first = open_port({.devargs = devargs});
    ASSERT_TRUE(first) << first.error().message;
    const auto second = open_port({.devargs = devargs});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY) << second.error().message;
  }
}

TEST(Ethdev, MtuAndMacOverridesAreHonoured) {
  ASSERT_EQ(start_eal(), "");
  const MacAddress mac{{2, 0, 10, 0, 0, 1}};
  for (const char* devargs : {"net_ring0", "net_memif0,role=client"}) {
    const auto port = open_port({.devargs = devargs, .mtu = 1500, .mac = mac});
    ASSERT_TRUE(port) << port.error().message;
    EXPECT_EQ(port.value()->capabilities().link_mtu, 1500u);
    EXPECT_EQ(port.value()->capabilities().mac, mac);
  }
}

TEST(NetRing, QueuesAreJoinedOneToOne) {
  ASSERT_EQ(start_eal(), "");
  const auto near = open_port({.devargs = "net_ring4", .queues = 3});
  ASSERT_TRUE(near) << near.error().message;
  EXPECT_FALSE(open_port({.devargs = "net_ring5", .queues = 2})) << "both ends have the same number";
  const auto far = open_port({.devargs = "net_ring5", .queues = 3});
  ASSERT_TRUE(far) << far.error().message;
  for (uint16_t q = 0; q < 3; ++q) ASSERT_EQ(send_frames(near.value()->queue(q), q, 1, 100), 1u);
  for (uint16_t q = 0; q < 3; ++q) {
    EXPECT_EQ(receive_frames(far.value()->queue(q), 1), std::vector<int64_t>{q});
  }
}

TEST(NetRing, WhatIsNotReceivedIsLost) {
  ASSERT_EQ(start_eal(), "");
  const auto alone = open_port({.devargs = "net_ring6"});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(send_frames(alone.value()->queue(0), 0, 10'000, 64), 10'000u);
}

TEST(NetRing, AFrameOutlivesThePortThatSentIt) {
  PortPair pair = open_pair("net_ring0", "net_ring1");
  ASSERT_NE(pair.far, nullptr);
  ASSERT_EQ(send_frames(pair.near->queue(0), 77, 1, 2000), 1u);
  pair.near.reset();
  EXPECT_EQ(receive_frames(pair.far->queue(0), 1), std::vector<int64_t>{77});
}

/// Sends a frame in pieces of `piece_bytes`, past our port, as a foreign driver may deliver it.
void send_in_pieces(uint16_t port_id, rte_mempool* pool, uint32_t pieces, uint16_t piece_bytes) {
  rte_mbuf* head = nullptr;
  for (uint32_t i = 0; i < pieces; ++i) {
    rte_mbuf* piece = rte_pktmbuf_alloc(pool);
    ASSERT_NE(piece, nullptr);
    std::memset(rte_pktmbuf_append(piece, piece_bytes), static_cast<int>(i), piece_bytes);
    if (head == nullptr) {
      head = piece;
    } else {
      ASSERT_EQ(rte_pktmbuf_chain(head, piece), 0);
    }
  }
  ASSERT_EQ(rte_eth_tx_burst(port_id, 0, &head, 1), 1);
}

TEST(NetRing, AFrameInPiecesIsMadeWholeOrCounted) {
  PortPair pair = open_pair("net_ring0", "net_ring1");
  ASSERT_NE(pair.far, nullptr);
  uint16_t near_id = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_ring_uroce0", &near_id), 0);
  port::TxFrame any;
  ASSERT_EQ(pair.near->queue(0).allocate({&any, 1}), 1);
  rte_mempool* pool = static_cast<rte_mbuf*>(any.handle)->pool;
  pair.near->queue(0).free({&any, 1});
  const size_t buffers = rte_mempool_avail_count(pool);

  send_in_pieces(near_id, pool, 3, 1000);
  port::RxFrame frame;
  ASSERT_EQ(pair.far->queue(0).receive({&frame, 1}), 1);
  ASSERT_EQ(frame.length, 3000u);
  for (uint32_t i = 0; i < 3000; ++i) ASSERT_EQ(frame.data[i], static_cast<std::byte>(i / 1000)) << i;
  pair.far->queue(0).release({&frame, 1});
  EXPECT_EQ(pair.far->queue(0).dropped(), 0u);

  send_in_pieces(near_id, pool, 5, 9000);
  EXPECT_EQ(pair.far->queue(0).receive({&frame, 1}), 0);
  EXPECT_EQ(pair.far->queue(0).dropped(), 1u);
  pair.far.reset();  // which kept the buffer of the first for the near end
  EXPECT_EQ(rte_mempool_avail_count(pool), buffers);
}

/// All that are to be had; they are given back.
size_t count_buffers(port::PortQueue& queue) {
  std::vector<port::TxFrame> frames(4096);
  size_t count = 0;
  while (const uint16_t more = queue.allocate(std::span(frames).subspan(count))) count += more;
  queue.free(std::span(frames).first(count));
  return count;
}

TEST(NetRing, BuffersComeBackFromTheFarEnd) {
  PortPair pair = open_pair("net_ring0", "net_ring1");
  ASSERT_NE(pair.far, nullptr);
  port::PortQueue& near = pair.near->queue(0);
  const size_t buffers = count_buffers(near);
  ASSERT_GT(buffers, 1000u);
  // All of them more than once, in bursts that do not divide what the far end returns at once.
  constexpr uint32_t kBurst = 23;
  for (uint32_t sent = 0; sent < 3 * buffers; sent += kBurst) {
    ASSERT_EQ(send_frames(near, sent, kBurst, 100), kBurst);
    ASSERT_EQ(receive_frames(pair.far->queue(0), kBurst).size(), kBurst);
  }
  pair.far.reset();
  EXPECT_EQ(count_buffers(near), buffers);
}

TEST(NetRing, WhatTheRingOfReturnsCannotHoldGoesToThePool) {
  PortPair pair = open_pair("net_ring0", "net_ring1");
  ASSERT_NE(pair.far, nullptr);
  port::PortQueue& near = pair.near->queue(0);
  const size_t buffers = count_buffers(near);
  // It holds as many as the ring of frames: twice that is on its way at once.
  std::vector<port::RxFrame> received(4096);
  size_t count = 0;
  for (int portion = 0; portion < 2; ++portion) {
    ASSERT_EQ(send_frames(near, 0, 1000, 100), 1000u);
    while (const uint16_t more = pair.far->queue(0).receive(std::span(received).subspan(count)))
      count += more;
  }
  ASSERT_EQ(count, 2000u);
  pair.far->queue(0).release(std::span(received).first(count));
  pair.far.reset();
  EXPECT_EQ(count_buffers(near), buffers);
}

}  // namespace
}  // namespace uroce::testing
