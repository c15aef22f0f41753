#include "xrc_ends.h"

namespace uroce::verbs_test {

namespace {

constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

void modify(ibv_qp* qp, ibv_qp_attr attributes, int mask) {
  ASSERT_EQ(ibv_modify_qp(qp, &attributes, mask), 0);
}

ibv_gid gid_of(ibv_context* context) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context, 1, kGidIndex, &gid), 0);
  return gid;
}

}  // namespace

ibv_xrcd* open_xrc_domain(ibv_context* context, int fd, int flags) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = fd;
  wanted.oflags = flags;
  return ibv_open_xrcd(context, &wanted);
}

XrcReceiver::XrcReceiver(ibv_context* context, ibv_xrcd* xrcd, uint32_t depth)
    : memory(1 << 16),
      pd(ibv_alloc_pd(context)),
      cq(ibv_create_cq(context, 64, this, nullptr, 0)),
      mr(ibv_reg_mr(pd, memory.data(), memory.size(), int{kAccess})) {
  ibv_srq_init_attr_ex wanted{};
  wanted.srq_context = this;
  wanted.attr.max_wr = depth;
  wanted.attr.max_sge = 1;
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  wanted.srq_type = IBV_SRQT_XRC;
  wanted.pd = pd;
  wanted.xrcd = xrcd;
  wanted.cq = cq;
  srq = ibv_create_srq_ex(context, &wanted);
  EXPECT_NE(srq, nullptr);
}

XrcReceiver::~XrcReceiver() {
  if (srq != nullptr) destroy_queue();
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

void XrcReceiver::destroy_queue() {
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  srq = nullptr;
}

uint32_t XrcReceiver::number() const {
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  return number;
}

int XrcReceiver::post(uint64_t id, size_t offset, size_t bytes) const {
  ibv_sge segment{address(offset), static_cast<uint32_t>(bytes), mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &segment;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq, &request, &bad);
}

ibv_wc XrcReceiver::next() const {
  ibv_wc completion{};
  int got = 0;
  while (got == 0) got = ibv_poll_cq(cq, 1, &completion);
  EXPECT_EQ(got, 1);
  return completion;
}

bool XrcReceiver::nothing_to_poll() const {
  ibv_wc completion{};
  return ibv_poll_cq(cq, 1, &completion) == 0;
}

ibv_qp* create_xrc_target(ibv_context* context, ibv_xrcd* xrcd) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = xrcd;
  ibv_qp* const target = ibv_create_qp_ex(context, &wanted);
  EXPECT_NE(target, nullptr);
  return target;
}

EndOptions xrc_initiator() {
  EndOptions options;
  options.type = IBV_QPT_XRC_SEND;
  return options;
}

void join(const End& initiator, ibv_qp* target) {
  ibv_qp* const qp = initiator.qp;
  modify(qp, init_attributes(0), kInitMask);
  modify(target, init_attributes(int{kAccess} & ~int{IBV_ACCESS_LOCAL_WRITE}), kInitMask);
  modify(qp, rtr_attributes(initiator.context, target->qp_num, gid_of(target->context)), kRtrMaskUc);
  modify(target, rtr_attributes(target->context, qp->qp_num, gid_of(initiator.context)), kRtrMask);
  modify(qp, rts_attributes(), kRtsMask);
}

ibv_send_wr to_receiver(ibv_send_wr request, uint32_t number) {
  request.qp_type.xrc.remote_srqn = number;
  return request;
}

ibv_send_wr XrcPair::request(ibv_wr_opcode opcode, ibv_sge& segment, const XrcReceiver& to) const {
  ibv_send_wr made = to_receiver(send_request(7, segment), to.number());
  made.opcode = opcode;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    made.wr.atomic.remote_addr = to.address(0);
    made.wr.atomic.rkey = to.mr->rkey;
  } else {
    made.wr.rdma.remote_addr = to.address(0);
    made.wr.rdma.rkey = to.mr->rkey;
  }
  return made;
}

void XrcPair::expect_outcome(const ibv_send_wr& request, ibv_wc_status status) const {
  ASSERT_EQ(client.send(request), 0);
  EXPECT_EQ(client.next().status, status);
}

void XrcPair::expect_events(std::multiset<ibv_event_type> types) const {
  std::multiset<ibv_event_type> seen;
  while (seen.size() < types.size()) {
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(server.context, &event), 0);
    seen.insert(event.event_type);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(seen, types);
}

}  // namespace uroce::verbs_test
