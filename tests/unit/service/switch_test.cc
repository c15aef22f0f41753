#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "net/derived_mac.h"
#include "tests/unit/service/switch_fixture.h"

namespace uroce::testing {
namespace {

using service::Drop;
using service::ProgramSwitch;

TEST_F(SwitchTest, FramesGoToTheOwnerOfTheirQueuePairNumber) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  // Receive frames for the first and the last number of each, and for a block without a program.
  EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(0))));
  EXPECT_TRUE(deliver(rc_frame(from_peer(), b->number(4095)), false));
  EXPECT_FALSE(deliver(rc_frame(from_peer(), {7u << 12})));
  EXPECT_FALSE(deliver(rc_frame(from_peer(), {2})));
  // Expect: each program has its own, as it came.
  const auto to_a = a->memory.receive();
  ASSERT_TRUE(to_a);
  EXPECT_EQ(to_a->bytes, rc_frame(from_peer(), a->number(0)));
  EXPECT_TRUE(to_a->has_icrc);
  const auto to_b = b->memory.receive();
  ASSERT_TRUE(to_b);
  EXPECT_FALSE(to_b->has_icrc);
  EXPECT_FALSE(a->memory.receive());
  EXPECT_FALSE(b->memory.receive());
}

TEST_F(SwitchTest, WhatProgramsSendLeaves) {
  const auto a = make(1, 5);
  const Bytes frame = rc_frame(to_peer(), {0x123456});
  a->memory.send(frame);
  EXPECT_EQ(collect(), 1u);
  ASSERT_EQ(outbox_.batch().size(), 1u);
  const port::TxFrame& sent = outbox_.batch().frames().front();
  EXPECT_FALSE(sent.to_self || sent.to_group || sent.on_host);
  EXPECT_EQ(outbox_.take().front(), frame);
  EXPECT_EQ(a->attachment->counters().frames_from, 1u);
  EXPECT_EQ(a->attachment->counters().bytes_from, frame.size());
}

TEST_F(SwitchTest, AFrameThatLeavesHasAnIcrc) {
  const auto a = make(1, 5);
  const Bytes frame = rc_frame(to_peer(), {0x123456}, 61);
  Bytes without = frame;
  std::fill(without.end() - 4, without.end(), std::byte{0xEE});
  a->memory.send(without, false);
  collect();
  EXPECT_EQ(outbox_.take().front(), frame);
}

TEST_F(SwitchTest, AFrameForAnotherProgramStays) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  const Bytes frame = rc_frame(to_self(), b->number(9));
  a->memory.send(frame, false);
  EXPECT_EQ(collect(), 1u);
  EXPECT_TRUE(outbox_.batch().empty());
  const auto received = b->memory.receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes, frame);
  EXPECT_FALSE(received->has_icrc);
  EXPECT_EQ(received->sender, a->attachment->code()) << "it says who has sent it";
  // One from outside is nobody's, also when it names a program.
  deliver(ud_frame(from_peer(), a->number(1), b->number(9)));
  EXPECT_EQ(b->memory.receive()->sender, BlockCode{});
}

TEST_F(SwitchTest, AFrameForItselfComesBackOnce) {
  const auto a = make(1, 5);
  a->memory.send(rc_frame(to_self(), a->number(9)));
  EXPECT_EQ(collect(), 1u);
  EXPECT_EQ(collect(), 0u);
  EXPECT_TRUE(a->memory.receive());
  EXPECT_FALSE(a->memory.receive());
}

TEST_F(SwitchTest, AFrameForTheDeviceItselfIsLooped) {
  const auto a = make(1, 5);
  a->memory.send(rc_frame(to_self(), {17}));
  collect();
  ASSERT_EQ(outbox_.batch().size(), 1u);
  EXPECT_TRUE(outbox_.batch().frames().front().to_self);
}

TEST_F(SwitchTest, ProgramsCannotSendAsAnother) {
  struct Case {
    Drop expected;
    Bytes frame;
  };
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  wire::Path mac = to_peer();
  mac.source_mac = kPeerMac;
  wire::Path address = to_peer();
  address.source = kPeerAddress;
  wire::Path vlan = to_peer();
  vlan.has_vlan = true;
  vlan.vlan_tci = 7;
  Bytes arp(64);
  arp[12] = std::byte{8};
  arp[13] = std::byte{6};
  Bytes cut = rc_frame(to_peer(), {5});
  cut.resize(40);
  const wire::CmRtu of_another{.local = b->comm_id(3), .remote = {77}};
  const wire::CmReq with_its_number{.local = a->comm_id(3), .qp = b->number(1)};
  // Of XRC, whose receiver's number stands elsewhere.
  const wire::CmRep with_its_receiver{
      .local = a->comm_id(3), .remote = {77}, .local_eecn = b->number(1).value};
  const std::vector<Case> cases{
      {Drop::kSourceMac, rc_frame(mac, {5})},
      {Drop::kSourceAddress, rc_frame(address, {5})},
      {Drop::kSourceAddress, rc_frame(vlan, {5})},
      {Drop::kSourceNumber, ud_frame(to_peer(), b->number(1), {5})},
      {Drop::kSourceNumber, ud_frame(to_peer(), {1}, {5})},
      {Drop::kNotRoce, arp},
      {Drop::kMalformed, cut},
      {Drop::kManagement, ud_frame(to_peer(), {1}, {1}, 256)},
      {Drop::kManagement, ud_frame(to_peer(), a->number(1), {1}, 64)},
      {Drop::kManagement, cm_frame(to_peer(), of_another)},
      {Drop::kManagement, cm_frame(to_peer(), with_its_number)},
      {Drop::kManagement, cm_frame(to_peer(), with_its_receiver)},
  };
  for (const Case& one : cases) {
    const uint64_t before = a->drops(one.expected);
    a->memory.send(one.frame);
    EXPECT_EQ(collect(), 1u);
    EXPECT_EQ(a->drops(one.expected), before + 1) << service::label_of(one.expected);
    EXPECT_TRUE(outbox_.batch().empty()) << service::label_of(one.expected);
  }
  // Expect: its own pass.
  a->memory.send(ud_frame(to_peer(), a->number(1), {5}));
  a->memory.send(cm_frame(to_peer(), wire::CmReq{.local = a->comm_id(3), .qp = a->number(1)}));
  collect();
  EXPECT_EQ(outbox_.take().size(), 2u);
}

/// A simulated queue pair (cmtime of rdma-core), which hardware lets any program name.
TEST_F(SwitchTest, ProgramsMayNameAQueuePairOfNoProgram) {
  const auto a = make(1, 5);
  auto b = make(2, 6);
  const QpNumber of_b = b->number(1);
  const auto send = [&](QpNumber number) {
    a->memory.send(cm_frame(to_peer(), wire::CmReq{.local = a->comm_id(3), .qp = number}));
    a->memory.send(cm_frame(to_peer(), wire::CmRep{.local = a->comm_id(4), .remote = {9}, .qp = number}));
    a->memory.send(cm_frame(to_peer(), wire::CmSidrRep{.request = {9}, .qp = number}));
    collect();
    return outbox_.take().size();
  };
  EXPECT_EQ(send({1000}), 3u) << "of the service's block, as none of its own";
  EXPECT_EQ(send({7u << host::kBlockBits}), 3u);
  EXPECT_EQ(send(of_b), 0u);
  switch_.remove(*b->attachment);
  EXPECT_EQ(send(of_b), 3u) << "its program has ended";
}

TEST_F(SwitchTest, ProgramsSendInTheVlanOfTheirAddress) {
  constexpr uint16_t kVlan = 5;
  const Gid in_vlan = Gid::from_ipv4({198, 51, 100, 1});
  const Gid addresses[] = {kDeviceAddress, in_vlan};
  const uint16_t vlans[] = {0, kVlan};
  switch_.set_addresses(net::GidTable(kDeviceMac, addresses, vlans));
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  const auto path = [](const wire::Path& begin, const Gid& source, uint16_t vlan) {
    wire::Path tagged = begin;
    tagged.source = source;
    tagged.has_vlan = vlan != 0;
    tagged.vlan_tci = vlan;
    return tagged;
  };
  // Send from the address of a VLAN without a tag or with another's, and with its tag from the untagged one.
  for (const wire::Path& wrong : {path(to_peer(), in_vlan, 0), path(to_peer(), in_vlan, kVlan + 1),
                                  path(to_peer(), kDeviceAddress, kVlan)}) {
    const uint64_t before = a->drops(Drop::kSourceAddress);
    a->memory.send(rc_frame(wrong, {5}));
    collect();
    EXPECT_EQ(a->drops(Drop::kSourceAddress), before + 1);
    EXPECT_TRUE(outbox_.batch().empty());
  }
  // Send with its tag. Expect: it leaves, tag and all.
  const Bytes right = rc_frame(path(to_peer(), in_vlan, kVlan), {5});
  a->memory.send(right);
  collect();
  EXPECT_EQ(outbox_.take().front(), right);
  // Send to our own address in the VLAN, and to that which is in none. Expect: the neighbour is one there
  // only.
  wire::Path to_own = path(to_self(), in_vlan, kVlan);
  to_own.destination = in_vlan;
  a->memory.send(rc_frame(to_own, b->number(1)));
  collect();
  EXPECT_TRUE(b->memory.receive());
  a->memory.send(rc_frame(path(to_self(), in_vlan, kVlan), b->number(1)));
  collect();
  EXPECT_FALSE(b->memory.receive());
  EXPECT_EQ(outbox_.take().size(), 1u);
}

TEST_F(SwitchTest, ProgramsTakeTurns) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  const auto c = make(3, 7);
  for (int i = 0; i < 100; ++i)
    for (Member* member : {a.get(), b.get(), c.get()}) member->memory.send(rc_frame(to_peer(), {5}));
  const auto sent = [](const Member& member) { return member.attachment->counters().frames_from; };
  for (int i = 0; i < 3; ++i) {
    collect();
    outbox_.take();
  }
  // Expect: three full batches, of which each program had its share.
  EXPECT_EQ(sent(*a) + sent(*b) + sent(*c), 3 * port::TxBatch::kFramesMax);
  for (const Member* member : {a.get(), b.get(), c.get()})
    EXPECT_GE(sent(*member), ProgramSwitch::kFramesMax);
}

TEST_F(SwitchTest, AProgramThatTakesNothingLosesItsOwnFramesOnly) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  for (uint32_t i = 0; i < 3 * host::kRingFrames; ++i)
    EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(1))));
  EXPECT_GT(a->drops(Drop::kFull), 0u);
  EXPECT_TRUE(deliver(rc_frame(from_peer(), b->number(1))));
  EXPECT_TRUE(b->memory.receive());
  // Receive what there is, Expect: the next ones come again.
  while (a->memory.receive()) continue;
  const uint64_t dropped = a->drops(Drop::kFull);
  EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(1))));
  EXPECT_EQ(a->drops(Drop::kFull), dropped);
  EXPECT_TRUE(a->memory.receive());
}

TEST_F(SwitchTest, AProgramThatBreaksTheFormatIsHeardNoMore) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  constexpr host::MemoryLayout kLayout(host::kProgramMemory);
  const host::FrameDescriptor wrong{.frame = 60'000, .length = 64, .has_icrc = true, .sequence = 1};
  kLayout.ring(a->memory.bytes().data(), 0)->store(wrong.pack());
  b->memory.send(rc_frame(to_peer(), {5}));
  collect();
  EXPECT_TRUE(a->attachment->channel().broken());
  EXPECT_EQ(outbox_.take().size(), 1u);
  EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(1))));
  EXPECT_EQ(a->drops(Drop::kFull), 1u);
}

TEST_F(SwitchTest, AFrameThatIsTooLongForAProgramIsDropped) {
  const auto a = make(1, 5);
  EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(1), 4096)));
  EXPECT_TRUE(a->memory.receive());
  Bytes padded = rc_frame(from_peer(), a->number(1), 4096);
  padded.resize(host::kFrameBytes + 1);
  EXPECT_TRUE(deliver(padded));
  EXPECT_EQ(a->drops(Drop::kTooLong), 1u);
}

TEST_F(SwitchTest, AProgramThatHasGoneGetsNothing) {
  const auto a = make(1, 5);
  listen(*a, 700);
  switch_.remove(*a->attachment);
  EXPECT_FALSE(deliver(rc_frame(from_peer(), a->number(1))));
  EXPECT_TRUE(switch_.programs().empty());
  const auto b = make(2, 6);
  listen(*b, 700);
}

TEST_F(SwitchTest, MembersOfAGroupGetACopyEach) {
  const Gid group = Gid::from_ipv4({239, 1, 2, 3});
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  const auto c = make(3, 7);
  switch_.groups().join(group, *a->attachment);
  switch_.groups().join(group, *b->attachment);
  wire::Path path = from_peer();
  path.destination = group;
  path.destination_mac = net::multicast_mac(group);
  EXPECT_TRUE(deliver_to_group(ud_frame(path, {5}, {0xFFFFFF})));
  EXPECT_TRUE(a->memory.receive());
  EXPECT_TRUE(b->memory.receive());
  EXPECT_FALSE(c->memory.receive());

  // Receive one that a member sends. Expect: out, and to the other member alone.
  path.source = kDeviceAddress;
  path.source_mac = kDeviceMac;
  const Bytes own = ud_frame(path, a->number(3), {0xFFFFFF});
  a->memory.send(own);
  collect();
  ASSERT_EQ(outbox_.batch().size(), 1u);
  EXPECT_TRUE(outbox_.batch().frames().front().to_group);
  EXPECT_TRUE(deliver_to_group(own));
  EXPECT_FALSE(a->memory.receive());
  EXPECT_TRUE(b->memory.receive());

  switch_.groups().leave(group, *a->attachment);
  switch_.remove(*b->attachment);
  EXPECT_FALSE(deliver_to_group(own));
  EXPECT_EQ(switch_.groups().count(), 0u);
}

TEST_F(SwitchTest, AFrameToALargeGroupCountsForAsManyAsItHasMembers) {
  const Gid group = Gid::from_ipv4({239, 1, 2, 3});
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t i = 1; i <= 16; ++i) {
    members.push_back(make(i, 4 + i));
    switch_.groups().join(group, *members.back()->attachment);
  }
  wire::Path path = from_peer();
  path.destination = group;
  path.destination_mac = net::multicast_mac(group);
  path.source = kDeviceAddress;
  path.source_mac = kDeviceMac;
  Member& sender = *members.front();
  for (int i = 0; i < 10; ++i) sender.memory.send(ud_frame(path, sender.number(3), {0xFFFFFF}));
  collect();
  EXPECT_EQ(outbox_.batch().size(), ProgramSwitch::kFramesMax / members.size());
}

TEST_F(SwitchTest, ATurnMakesSoManyCopiesForGroups) {
  const Gid group = Gid::from_ipv4({239, 1, 2, 3});
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t i = 1; i <= 64; ++i) {
    members.push_back(make(i, 4 + i));
    switch_.groups().join(group, *members.back()->attachment);
  }
  wire::Path path = from_peer();
  path.destination = group;
  path.destination_mac = net::multicast_mac(group);
  const Bytes frame = ud_frame(path, {5}, {0xFFFFFF});
  constexpr size_t kTaken = ProgramSwitch::kGroupCopiesMax / 64;
  for (size_t i = 0; i < 2 * kTaken; ++i) EXPECT_TRUE(deliver_to_group(frame));
  EXPECT_EQ(members.back()->attachment->counters().frames_to, kTaken);
  // Receive one in the next turn. Expect: it is delivered.
  collect();
  EXPECT_TRUE(deliver_to_group(frame));
  EXPECT_EQ(members.back()->attachment->counters().frames_to, kTaken + 1);
}

TEST_F(SwitchTest, AProgramLeavesItsGroupsBitByBit) {
  const auto a = make(1, 5);
  const auto b = make(2, 6);
  constexpr uint8_t kGroups = 2 * ProgramSwitch::kFramesMax + 1;
  for (uint8_t i = 0; i < kGroups; ++i) {
    switch_.groups().join(Gid::from_ipv4({239, 1, 2, i}), *a->attachment);
    if (i % 2 == 0) switch_.groups().join(Gid::from_ipv4({239, 1, 2, i}), *b->attachment);
  }
  EXPECT_FALSE(switch_.remove_some(*a->attachment));
  EXPECT_FALSE(switch_.remove_some(*a->attachment));
  EXPECT_TRUE(switch_.remove_some(*a->attachment));
  EXPECT_EQ(switch_.groups().count(), kGroups / 2 + 1u);
  switch_.remove(*b->attachment);
  EXPECT_EQ(switch_.groups().count(), 0u);
}

TEST_F(SwitchTest, AProgramThatSleepsIsWoken) {
  const auto a = make(1, 5);
  std::atomic<uint32_t>& bell = a->memory.own().bell().word;
  bell = host::Bell::kAsleep;
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    timespec patience{.tv_sec = 10, .tv_nsec = 0};
    woken = syscall(SYS_futex, &bell, FUTEX_WAIT, host::Bell::kAsleep, &patience, nullptr, 0) == 0;
  });
  // Once in each turn, in case that it was about to fall asleep.
  for (int i = 0; i < 1000 && !woken; ++i) {
    collect();
    EXPECT_TRUE(deliver(rc_frame(from_peer(), a->number(1))));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sleeper.join();
  EXPECT_TRUE(woken);
}

TEST_F(SwitchTest, AddressesThatGoAreNotSentFrom) {
  const auto a = make(1, 5);
  switch_.set_addresses(net::GidTable(kDeviceMac, {}));
  a->memory.send(rc_frame(to_peer(), {5}));
  collect();
  EXPECT_EQ(a->drops(Drop::kSourceAddress), 1u);
}

}  // namespace
}  // namespace uroce::testing
