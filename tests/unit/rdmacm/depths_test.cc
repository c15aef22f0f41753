#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "ends.h"

// READs and atomics under way: what the two ends say to each other, and that they keep to it.
namespace uroce::rdmacm_test {
namespace {

constexpr unsigned kFlushGlobal = 1 << 8;  // IBV_ACCESS_FLUSH_GLOBAL of newer headers

using Depth = Ends;

/// {max_rd_atomic, max_dest_rd_atomic}
std::vector<int> depths_of(const Id& id) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  const int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
  EXPECT_EQ(ibv_query_qp(id->qp, &attributes, mask, &initial), 0);
  return {attributes.max_rd_atomic, attributes.max_dest_rd_atomic};
}

/// One list of more READs than any of the depths here, each of several packets. Expect: all bytes.
void read_at_once(const Id& from, const Id& to) {
  constexpr size_t kReads = 24;
  constexpr uint32_t kBytes = 16384;
  std::vector<uint8_t> source(kReads * kBytes);
  std::iota(source.begin(), source.end(), uint8_t{1});
  std::vector<uint8_t> target(source.size());
  ibv_mr* const source_region = rdma_reg_read(to.get(), source.data(), source.size());
  ibv_mr* const target_region = rdma_reg_msgs(from.get(), target.data(), target.size());
  ASSERT_TRUE(source_region != nullptr && target_region != nullptr);
  std::vector<ibv_sge> segments(kReads);
  std::vector<ibv_send_wr> reads(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    segments[i] = {reinterpret_cast<uintptr_t>(target.data()) + i * kBytes, kBytes, target_region->lkey};
    reads[i].next = i + 1 < kReads ? &reads[i + 1] : nullptr;
    reads[i].sg_list = &segments[i];
    reads[i].num_sge = 1;
    reads[i].opcode = IBV_WR_RDMA_READ;
    reads[i].wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(source.data()) + i * kBytes;
    reads[i].wr.rdma.rkey = source_region->rkey;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from->qp, reads.data(), &bad), 0);
  for (size_t i = 0; i < kReads; ++i) {
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_send_comp(from.get(), &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << "READ " << i;
  }
  EXPECT_EQ(source, target);
  EXPECT_EQ(ibv_dereg_mr(source_region), 0);
  EXPECT_EQ(ibv_dereg_mr(target_region), 0);
}

/// rdma_get_cm_event(3): each end hears what the other said, from its own point of view.
TEST_F(Depth, DepthsOfReads_ExpectEachEndToHearItsOwnPart) {
  listen();
  rdma_conn_param asking{};
  asking.initiator_depth = 5;
  asking.responder_resources = 3;
  {
    const Event asked = request(IBV_QPT_RC, &asking);
    EXPECT_EQ(asked->param.conn.responder_resources, 5);
    EXPECT_EQ(asked->param.conn.initiator_depth, 3);
  }
  rdma_conn_param answering{};
  answering.initiator_depth = 2;
  answering.responder_resources = 4;
  {
    const Event established = accept(&answering);
    EXPECT_EQ(established->param.conn.responder_resources, 2);
    EXPECT_EQ(established->param.conn.initiator_depth, 4);
  }
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(server->qp, &attributes, IBV_QP_MAX_QP_RD_ATOMIC, &initial), 0);
  EXPECT_EQ(attributes.max_rd_atomic, 2);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 4);
}

struct Depths {
  const char* what;
  uint8_t asked[2];    // initiator_depth and responder_resources of rdma_connect,
  uint8_t granted[2];  // and of rdma_accept
  int client[2];       // READs and atomics under way: sent and answered
  int server[2];
};

class Negotiation : public Ends, public ::testing::WithParamInterface<Depths> {};

/// What the server grants binds the client, and what either leaves open is the least of peer and device.
TEST_P(Negotiation, OfReads_ExpectBothEndsToKeepToIt) {
  const Depths& depths = GetParam();
  SCOPED_TRACE(depths.what);
  listen();
  rdma_conn_param asking{};
  asking.initiator_depth = depths.asked[0];
  asking.responder_resources = depths.asked[1];
  request(IBV_QPT_RC, &asking);
  rdma_conn_param answering{};
  answering.initiator_depth = depths.granted[0];
  answering.responder_resources = depths.granted[1];
  {
    const Event established = accept(&answering);
    EXPECT_EQ(established->param.conn.initiator_depth, depths.server[1]) << "what the server answers";
    EXPECT_EQ(established->param.conn.responder_resources, depths.server[0]) << "what the server sends";
  }
  EXPECT_EQ(depths_of(client), std::vector(depths.client, depths.client + 2));
  EXPECT_EQ(depths_of(server), std::vector(depths.server, depths.server + 2));
  read_at_once(client, server);
  read_at_once(server, client);
}
// Of the device: 128 sent, 16 answered.
INSTANTIATE_TEST_SUITE_P(
    Depths, Negotiation,
    ::testing::Values(Depths{"both 8", {8, 8}, {8, 8}, {8, 8}, {8, 8}},
                      Depths{"the server answers one", {16, 16}, {16, 1}, {1, 16}, {16, 1}},
                      Depths{"the client leaves it open", {255, 255}, {255, 2}, {2, 16}, {16, 2}},
                      Depths{"the server leaves it open", {1, 1}, {255, 255}, {1, 1}, {1, 1}},
                      Depths{"both do", {255, 255}, {255, 255}, {16, 16}, {16, 16}},
                      Depths{"the server sends two", {4, 2}, {2, 4}, {4, 2}, {2, 4}},
                      Depths{"more than was asked for", {1, 1}, {9, 9}, {9, 9}, {9, 9}},
                      Depths{"more than the device has", {200, 200}, {16, 200}, {16, 16}, {16, 16}}));

TEST_F(Depth, DepthsThatTheProgramLeavesToTheRequest_ExpectTheRequests) {
  listen();
  rdma_conn_param asking{};
  asking.initiator_depth = 5;
  asking.responder_resources = 3;
  request(IBV_QPT_RC, &asking);
  accept(nullptr);
  EXPECT_EQ(depths_of(client), (std::vector{5, 3}));
  EXPECT_EQ(depths_of(server), (std::vector{3, 5}));
}

/// As Linux's do: READ, atomics and FLUSH with READs that are answered, else WRITE alone.
TEST_F(Depth, RightsOfThePeer_ExpectThemByTheReadsThatAreAnswered) {
  listen();
  rdma_conn_param asking{};
  asking.initiator_depth = 1;
  request(IBV_QPT_RC, &asking);
  accept(nullptr);
  const auto rights_of = [](const Id& id) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_ACCESS_FLAGS, &initial), 0);
    return attributes.qp_access_flags;
  };
  EXPECT_EQ(rights_of(client), unsigned{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(rights_of(server),
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | kFlushGlobal);
}

}  // namespace
}  // namespace uroce::rdmacm_test
