#include "operations.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>
#include <vector>

namespace uroce::verbs_test {
namespace {

// Within the region: over the borders of pages and of packets.
constexpr size_t kFrom = 100;
constexpr size_t kBytes = 3 * kPageBytes;
/// Of a SEND that is refused for its last packet those before have been placed; so there is only one.
constexpr size_t kPacket = 500;

ibv_sge part(const Region& region) { return {region.address + kFrom, kBytes, region.lkey}; }

bool same(const Parties& parties, const Region& region) {
  for (size_t i = 0; i < kBytes; ++i) {
    if (parties.peer.memory[i] != region.at(kFrom + i)) return false;
  }
  return true;
}

/// What both ends had before something was tried.
class Before {
 public:
  explicit Before(Parties& parties) : parties_(parties) {
    static uint8_t seed = 0;
    parties.fill_arena(++seed);
    parties.peer.fill(static_cast<uint8_t>(seed * 31));
    arena_ = parties.arena();
    peer_ = parties.peer.memory;
    own_ = parties.owner.memory;
  }
  /// As it must be: the bytes of the region are the peer's, and nothing else has changed.
  [[nodiscard]] Outcome expect(const Region& region, Outcome outcome) const {
    if (outcome == kDone) {
      EXPECT_TRUE(same(parties_, region));
      const auto moved = [](const auto& now, const auto& then) {
        return std::inner_product(now.begin(), now.end(), then.begin(), size_t{0}, std::plus{},
                                  std::not_equal_to{});
      };
      EXPECT_LE(moved(parties_.arena(), arena_) + moved(parties_.peer.memory, peer_), kBytes);
    } else {
      EXPECT_EQ(parties_.arena(), arena_);
      EXPECT_EQ(parties_.peer.memory, peer_);
    }
    return finish(outcome);
  }
  /// What moves no bytes of the region.
  [[nodiscard]] Outcome finish(Outcome outcome) const {
    EXPECT_TRUE(outcome == kDone || parties_.owner.memory == own_);
    if (outcome.error == 0 && outcome != kDone) {
      ibv_qp_attr state{};
      ibv_qp_init_attr initial{};
      EXPECT_EQ(ibv_query_qp(parties_.owner.qp, &state, IBV_QP_STATE, &initial), 0);
      EXPECT_EQ(state.qp_state, IBV_QPS_ERR) << "the owner's queue pair";
      parties_.reconnect();
    }
    return outcome;
  }

 private:
  Parties& parties_;
  std::vector<uint8_t> arena_;
  std::vector<uint8_t> peer_;
  std::vector<uint8_t> own_;
};

Outcome remote(Parties& parties, Region& region, ibv_wr_opcode opcode) {
  const Before before(parties);
  ibv_sge segment = parties.peer.part(0, kBytes);
  ibv_send_wr request = write_request(1, segment, parties.owner);
  request.opcode = opcode;
  request.wr.rdma = {.remote_addr = region.address + kFrom, .rkey = region.rkey};
  EXPECT_EQ(parties.peer.send(request), 0);
  return before.expect(region, {.peer = parties.peer.next().status});
}

}  // namespace

Outcome local_read(Parties& parties, Region& region) {
  const Before before(parties);
  EXPECT_EQ(parties.peer.receive(1, parties.peer.part(0, kBytes)), 0);
  ibv_sge segment = part(region);
  EXPECT_EQ(parties.owner.send(send_request(2, segment)), 0);
  Outcome outcome{.own = parties.owner.next().status};
  if (outcome == kDone) outcome.peer = parties.peer.next().status;
  return before.expect(region, outcome);
}

Outcome local_write(Parties& parties, Region& region) {
  const Before before(parties);
  EXPECT_EQ(parties.owner.receive(1, part(region)), 0);
  ibv_sge segment = parties.peer.part(0, kBytes);
  EXPECT_EQ(parties.peer.send(send_request(2, segment)), 0);
  const ibv_wc_status own = parties.owner.next().status;
  return before.expect(region, {.own = own, .peer = parties.peer.next().status});
}

Outcome remote_write(Parties& parties, Region& region) { return remote(parties, region, IBV_WR_RDMA_WRITE); }

Outcome remote_read(Parties& parties, Region& region) { return remote(parties, region, IBV_WR_RDMA_READ); }

Outcome send_invalidate(Parties& parties, Region& region) {
  const Before before(parties);
  EXPECT_EQ(parties.owner.receive(1, parties.owner.part(0, kPacket)), 0);
  ibv_sge segment = parties.peer.part(0, kPacket);
  ibv_send_wr request = send_request(2, segment);
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.invalidate_rkey = region.rkey;
  EXPECT_EQ(parties.peer.send(request), 0);
  const ibv_wc received = parties.owner.next();
  if (received.status == IBV_WC_SUCCESS) {
    EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0U);
    EXPECT_EQ(received.invalidated_rkey, region.rkey);
  }
  return before.finish({.own = received.status, .peer = parties.peer.next().status});
}

Outcome local_invalidate(Parties& parties, Region& region) {
  const Before before(parties);
  return before.finish(parties.local_invalidate(region.rkey));
}

Outcome register_again(Parties& parties, Region& region) {
  if (region.mr == nullptr) return kNone;
  const Before before(parties);
  return before.finish(parties.register_fast(region, kAllRights, static_cast<uint8_t>(region.rkey + 1)));
}

Outcome bind(Parties& parties, Region& region) {
  if (region.mr == nullptr && region.window == nullptr) return kNone;
  const Before before(parties);
  const ibv_mr* const under = region.window != nullptr ? region.parent->mr : region.mr;
  const ibv_mw_bind_info info{.mr = const_cast<ibv_mr*>(under),
                              .addr = region.address,
                              .length = kRegionBytes,
                              .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  if (region.window != nullptr) {
    const Outcome outcome = parties.bind_window(region.window, info);
    if (outcome == kDone) region.lkey = region.rkey = region.window->rkey;
    return before.finish(outcome);
  }
  ibv_mw* window = urocedv_alloc_mw(parties.owner.pd, UROCEDV_MW_TYPE_2B);
  const Outcome outcome = before.finish(parties.bind_window(window, info));
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  return outcome;
}

Outcome end(Parties& parties, Region& region) { return {.error = parties.end(region)}; }

Outcome reregister(Parties&, Region& region) {
  if (region.mr == nullptr) return kNone;
  errno = 0;
  const int code = ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                                kAllRights | IBV_ACCESS_MW_BIND);
  if (code == 0) return kDone;
  // Of other kinds than those of ibv_reg_mr libibverbs would not ask the kernel.
  EXPECT_EQ(code, region.kind == Kind::kUser ? IBV_REREG_MR_ERR_CMD : IBV_REREG_MR_ERR_INPUT);
  return failed(errno);
}

}  // namespace uroce::verbs_test
