// A peer ends the binding of a region over XRC: the region is of the domain of the shared receive queue that
// its message names.
#include <infiniband/urocedv.h>

#include <cstring>

#include "xrc_ends.h"

namespace uroce::verbs_test {
namespace {

constexpr uint64_t kIova = 0x5000000000;
constexpr uint32_t kPage = 4096;
constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// A queue pair that is ready for work requests that are executed here.
ibv_qp* create_registrar(const XrcReceiver& owner) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = owner.cq;
  wanted.cap.max_send_wr = 1;
  wanted.qp_type = IBV_QPT_XRC_SEND;
  wanted.sq_sig_all = 1;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = owner.pd;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* const qp = ibv_create_qp_ex(owner.pd->context, &wanted);
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(qp->context, 1, kGidIndex, &gid), 0);
  ibv_qp_attr attributes = init_attributes(0);
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), 0);
  attributes = rtr_attributes(qp->context, qp->qp_num, gid);
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kRtrMaskUc), 0);
  attributes = rts_attributes();
  EXPECT_EQ(ibv_modify_qp(qp, &attributes, kRtsMask), 0);
  return qp;
}

class XrcInvalidation : public XrcPair {
 protected:
  /// Over the first page of the receiver's memory.
  XrcInvalidation() {
    sg.address = first.memory.data();
    sg.length = kPage;
    EXPECT_EQ(urocedv_dma_map_sg(server.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), 1);
    uint64_t offset = 0;
    EXPECT_EQ(urocedv_map_mr_sg(mr, &sg, 1, &offset, kPage), 1);
    urocedv_reg_mr_attr attr{};
    attr.iova = kIova;
    attr.key = mr->rkey;
    attr.access = kEverything;
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(registrar);
    ibv_wr_start(qp);
    urocedv_wr_reg_mr(qp, mr, &attr);
    EXPECT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(first.next().status, IBV_WC_SUCCESS);
  }
  ~XrcInvalidation() override {
    EXPECT_EQ(ibv_destroy_qp(registrar), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(urocedv_dma_unmap_sg(server.context, &sg, 1, UROCEDV_DMA_BIDIRECTIONAL), 0);
  }

  ibv_wc_status write() const {
    ibv_sge segment = client.part(0, 100);
    ibv_send_wr made = request(IBV_WR_RDMA_WRITE, segment, first);
    made.wr.rdma.remote_addr = kIova;
    made.wr.rdma.rkey = mr->rkey;
    EXPECT_EQ(client.send(made), 0);
    return client.next().status;
  }
  ibv_wc_status invalidate_by_message_to(const XrcReceiver& to) const {
    EXPECT_EQ(to.post(1, kPage, 100), 0);
    ibv_sge segment = client.part(0, 100);
    ibv_send_wr made = request(IBV_WR_SEND_WITH_INV, segment, to);
    made.invalidate_rkey = mr->rkey;
    EXPECT_EQ(client.send(made), 0);
    return client.next().status;
  }

  ibv_mr* mr = urocedv_alloc_mr(first.pd, UROCEDV_MR_TYPE_MEM_REG, 2);
  ibv_qp* registrar = create_registrar(first);
  urocedv_sg sg{};
};

TEST_F(XrcInvalidation, ByAMessageToItsOwnQueue) {
  client.fill(3);
  EXPECT_EQ(write(), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(client.memory.data(), first.memory.data(), 100), 0);
  EXPECT_EQ(invalidate_by_message_to(first), IBV_WC_SUCCESS);
  const ibv_wc received = first.next();
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(received.invalidated_rkey, mr->rkey);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcInvalidation, NotByAMessageToTheQueueOfAnotherDomain) {
  EXPECT_EQ(invalidate_by_message_to(second), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(second.next().status, IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace
}  // namespace uroce::verbs_test
