// One work request whose segments are of many kinds: whatever they are and wherever they begin and end, the
// message is their bytes in their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kinds.h"

namespace uroce::verbs_test {
namespace {

constexpr size_t kSegmentsMax = 16;  // of the owner's queue pair

enum class Use { kGatherSend, kGatherWrite, kScatterReceive, kScatterRead };
constexpr Use kUses[] = {Use::kGatherSend, Use::kGatherWrite, Use::kScatterReceive, Use::kScatterRead};
constexpr bool scatters(Use use) { return use == Use::kScatterReceive || use == Use::kScatterRead; }

/// A list of segments, and where each of its bytes is.
struct List {
  std::vector<ibv_sge> segments;
  std::vector<uint8_t*> bytes;
  std::set<Kind> kinds;
};

class Segments : public ::testing::Test {
 protected:
  Segments() {
    for (const Kind kind : {Kind::kUser, Kind::kZeroBased, Kind::kDma, Kind::kReserved, Kind::kPhysical,
                            Kind::kFmr, Kind::kFast}) {
      regions.push_back(parties.make(kind, best_rights(kind)));
      EXPECT_EQ(regions.back().made, Outcome{}) << name(kind);
    }
  }
  ~Segments() override {
    for (Region& region : regions) parties.release(region);
  }

  size_t below(size_t bound) { return random() % bound; }
  /// One of nothing has any key and any address: they are not looked at (C9-88).
  ibv_sge nothing() { return {random(), 0, static_cast<uint32_t>(random())}; }
  /// No byte of the arena twice.
  List any_list() {
    List list;
    std::set<uint8_t*> taken;
    const size_t count = 1 + below(kSegmentsMax);
    while (list.segments.size() < count) {
      const Region& region = regions[below(regions.size())];
      // Of nothing, of little, and of what goes over two borders of pages.
      const size_t length =
          std::array{size_t{0}, size_t{1}, 1 + below(70), 1 + below(2 * kPageBytes)}[below(4)];
      const size_t begin = below(kRegionBytes - length + 1);
      std::vector<uint8_t*> bytes;
      for (size_t i = 0; i < length; ++i) bytes.push_back(&region.at(begin + i));
      const bool free = std::ranges::none_of(bytes, [&](uint8_t* byte) { return taken.contains(byte); });
      if (length == 0 || !free) {
        list.segments.push_back(nothing());
        continue;
      }
      list.segments.push_back({region.address + begin, static_cast<uint32_t>(length), region.lkey});
      list.bytes.insert(list.bytes.end(), bytes.begin(), bytes.end());
      list.kinds.insert(region.kind);
      taken.insert(bytes.begin(), bytes.end());
    }
    return list;
  }

  void post_receive(List& list) {
    ibv_recv_wr request{};
    request.sg_list = list.segments.data();
    request.num_sge = static_cast<int>(list.segments.size());
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(parties.owner.qp, &request, &bad), 0);
  }
  /// The owner's request with the list, for `peer_part` of the peer's memory.
  void post(List& list, ibv_wr_opcode opcode, size_t at) {
    ibv_send_wr request = write_request(1, list.segments[0], parties.peer, at);
    request.num_sge = static_cast<int>(list.segments.size());
    request.opcode = opcode;
    ASSERT_EQ(parties.owner.send(request), 0);
    ASSERT_EQ(parties.owner.next().status, IBV_WC_SUCCESS);
  }
  /// Moves the first `length` bytes of the list; those of the peer are at `at`.
  void move(Use use, List& list, size_t at, size_t length) {
    ibv_sge part = parties.peer.part(at, length);
    switch (use) {
      case Use::kGatherSend:
        ASSERT_EQ(parties.peer.receive(2, part), 0);
        post(list, IBV_WR_SEND, at);
        ASSERT_EQ(parties.peer.next().status, IBV_WC_SUCCESS);
        break;
      case Use::kGatherWrite:
        post(list, IBV_WR_RDMA_WRITE, at);
        break;
      case Use::kScatterRead:
        post(list, IBV_WR_RDMA_READ, at);
        break;
      case Use::kScatterReceive: {
        post_receive(list);
        ASSERT_EQ(parties.peer.send(send_request(3, part)), 0);
        const ibv_wc received = parties.owner.next();
        ASSERT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, length);
        ASSERT_EQ(parties.peer.next().status, IBV_WC_SUCCESS);
      }
    }
  }

  Parties parties;
  std::vector<Region> regions;
  std::mt19937 random;
};

TEST_F(Segments, OfEveryKindInOneRequest) {
  std::map<std::pair<Kind, Use>, int> used;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random.seed(seed);
    List list = any_list();
    const Use use = kUses[seed % std::size(kUses)];
    // A message may be shorter than the receive that it takes.
    const size_t length = use == Use::kScatterReceive ? below(list.bytes.size() + 1) : list.bytes.size();
    const size_t at = below(1000);
    parties.fill_arena(static_cast<uint8_t>(seed));
    parties.peer.fill(static_cast<uint8_t>(seed * 91 + 5));
    std::vector<uint8_t> arena = parties.arena();
    std::vector<uint8_t> peer = parties.peer.memory;
    for (size_t i = 0; i < length; ++i) {
      uint8_t& own = arena[static_cast<size_t>(list.bytes[i] - parties.page(0))];
      (scatters(use) ? own : peer[at + i]) = scatters(use) ? peer[at + i] : own;
    }
    ASSERT_NO_FATAL_FAILURE(move(use, list, at, length));
    ASSERT_EQ(parties.arena(), arena);
    ASSERT_EQ(parties.peer.memory, peer);
    for (const Kind kind : list.kinds) ++used[{kind, use}];
  }
  for (const Region& region : regions) {
    for (const Use use : kUses) EXPECT_GT((used[{region.kind, use}]), 5) << name(region.kind);
  }
}

/// One segment that is not right: nothing of the others moves either.
TEST_F(Segments, OneIsWrong_ExpectNothingMoved) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random.seed(seed);
    List list = any_list();
    // Within the first packet, which is all that is looked at before bytes move.
    for (ibv_sge& segment : list.segments) segment.length = std::min(segment.length, 30U);
    auto wrong =
        std::ranges::find_if(list.segments, [](const ibv_sge& segment) { return segment.length > 0; });
    if (wrong == list.segments.end()) continue;
    switch (seed / 4 % 3) {
      case 0:
        wrong->lkey ^= 1;
        break;
      case 1:
        wrong->addr = UINT64_MAX - 3;
        break;
      default:
        wrong->addr -= parties.kArenaBytes;  // before all of them
    }
    std::rotate(list.segments.begin(), std::next(wrong), list.segments.end());
    const std::vector<uint8_t> arena = parties.arena();
    const std::vector<uint8_t> peer = parties.peer.memory;
    const bool receives = seed % 2 == 0;
    if (receives) {
      post_receive(list);
      uint32_t bytes = 0;
      for (const ibv_sge& segment : list.segments) bytes += segment.length;
      ibv_sge part = parties.peer.part(0, bytes);
      ASSERT_EQ(parties.peer.send(send_request(3, part)), 0);
      EXPECT_EQ(parties.peer.next().status, IBV_WC_REM_OP_ERR);
    } else {
      ibv_send_wr request = write_request(1, list.segments[0], parties.peer);
      request.num_sge = static_cast<int>(list.segments.size());
      if (seed % 4 == 1) request.opcode = IBV_WR_RDMA_READ;
      ASSERT_EQ(parties.owner.send(request), 0);
    }
    EXPECT_EQ(parties.owner.next().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(parties.arena(), arena);
    EXPECT_EQ(parties.peer.memory, peer);
    parties.reconnect();
  }
}

}  // namespace
}  // namespace uroce::verbs_test
