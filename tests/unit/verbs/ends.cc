#include "ends.h"

#include <numeric>

namespace uroce::verbs_test {

namespace {

/// As ibv_wr_* need it.
ibv_qp* create_extended(ibv_pd* pd, const ibv_qp_init_attr& initial, uint64_t operations) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = initial.qp_context;
  wanted.send_cq = initial.send_cq;
  wanted.recv_cq = initial.recv_cq;
  wanted.cap = initial.cap;
  wanted.qp_type = initial.qp_type;
  wanted.sq_sig_all = initial.sq_sig_all;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = pd;
  wanted.send_ops_flags = operations;
  return ibv_create_qp_ex(pd->context, &wanted);
}

}  // namespace

ibv_device* device_at(size_t index) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_NE(list, nullptr);
  EXPECT_LT(index, static_cast<size_t>(count));
  ibv_device* device = list[index];
  ibv_free_device_list(list);
  return device;
}

ibv_qp_attr init_attributes(int access) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned int>(access);
  return attributes;
}

ibv_qp_attr rtr_attributes(const ibv_context*, uint32_t peer_number, const ibv_gid& peer_gid) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer_number;
  attributes.rq_psn = 0xFFFFF0;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = peer_gid;
  attributes.ah_attr.grh.sgid_index = kGidIndex;
  attributes.ah_attr.grh.hop_limit = 1;
  return attributes;
}

ibv_qp_attr rts_attributes() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.sq_psn = 0xFFFFF0;
  attributes.max_rd_atomic = 4;
  return attributes;
}

End::End(ibv_device* device, const EndOptions& options) : memory(options.bytes) {
  context = ibv_open_device(device);
  EXPECT_NE(context, nullptr);
  pd = ibv_alloc_pd(context);
  if (options.with_channel) channel = ibv_create_comp_channel(context);
  cq = ibv_create_cq(context, options.completions, this, channel, 0);
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), options.access);
  ibv_qp_init_attr initial{};
  initial.qp_context = this;
  initial.send_cq = cq;
  initial.recv_cq = cq;
  initial.qp_type = options.type;
  initial.sq_sig_all = options.signal_all ? 1 : 0;
  initial.cap = {options.depth, options.depth, options.segments, options.segments, options.inline_bytes};
  qp = options.operations == 0 ? options.create_qp(pd, &initial)
                               : create_extended(pd, initial, options.operations);
  EXPECT_NE(qp, nullptr);
}

End::~End() {
  if (qp != nullptr) {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  if (channel != nullptr) {
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

void End::to_init() const {
  ibv_qp_attr attributes =
      init_attributes(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, kInitMask), 0);
}

void End::to_rtr(const End& peer) const {
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(peer.context, 1, kGidIndex, &gid), 0);
  ibv_qp_attr attributes = rtr_attributes(context, peer.qp->qp_num, gid);
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, qp->qp_type == IBV_QPT_RC ? kRtrMask : kRtrMaskUc), 0);
}

void End::to_rts() const {
  ibv_qp_attr attributes = rts_attributes();
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, qp->qp_type == IBV_QPT_RC ? kRtsMask : kRtsMaskUc), 0);
}

ibv_qp_state End::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &initial), 0);
  return attributes.qp_state;
}

ibv_sge End::part(size_t offset, size_t bytes) const {
  return {reinterpret_cast<uintptr_t>(memory.data() + offset), static_cast<uint32_t>(bytes), mr->lkey};
}

void End::fill(uint8_t seed) { std::iota(memory.begin(), memory.end(), seed); }

int End::send(ibv_send_wr request) const {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &request, &bad);
}

int End::receive(uint64_t id, ibv_sge segment) const {
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &segment;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &request, &bad);
}

ibv_wc End::next() const {
  ibv_wc completion{};
  int got = 0;
  while (got == 0) got = ibv_poll_cq(cq, 1, &completion);
  EXPECT_EQ(got, 1);
  return completion;
}

bool End::nothing_to_poll() const {
  ibv_wc completion{};
  return ibv_poll_cq(cq, 1, &completion) == 0;
}

void connect(const End& one, const End& other) {
  one.to_init();
  other.to_init();
  one.to_rtr(other);
  other.to_rtr(one);
  one.to_rts();
  other.to_rts();
}

ibv_send_wr send_request(uint64_t id, ibv_sge& segment) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.sg_list = &segment;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  return request;
}

ibv_send_wr write_request(uint64_t id, ibv_sge& segment, const End& to, size_t offset) {
  ibv_send_wr request = send_request(id, segment);
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(to.memory.data() + offset);
  request.wr.rdma.rkey = to.mr->rkey;
  return request;
}

ibv_send_wr read_request(uint64_t id, ibv_sge& segment, const End& from, size_t offset) {
  ibv_send_wr request = write_request(id, segment, from, offset);
  request.opcode = IBV_WR_RDMA_READ;
  return request;
}

}  // namespace uroce::verbs_test
