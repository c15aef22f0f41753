#include "pair.h"

enum { PORT = 1, GID_INDEX = 1, DEPTH = 16, SEGMENTS = 8 };

static struct ibv_qp* create_qp(const struct pair* pair, uint32_t create_flags) {
  struct ibv_qp_init_attr_ex attr = {
      .send_cq = pair->cq,
      .recv_cq = pair->cq,
      .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = SEGMENTS, .max_recv_sge = SEGMENTS},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = pair->pd,
      .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
                        IBV_QP_EX_WITH_LOCAL_INV,
  };
  struct urocedv_qp_init_attr more = {.create_flags = create_flags};
  struct ibv_qp* qp = urocedv_create_qp(pair->context, &attr, &more);
  CHECK(qp != NULL);
  return qp;
}

static void connect_to(const struct pair* pair, struct ibv_qp* qp, const struct ibv_qp* peer) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  CHECK((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE)) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_INIT,
      .port_num = PORT,
      .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
  };
  CHECK((errno = ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_4096,
      .dest_qp_num = peer->qp_num,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.sgid_index = GID_INDEX, .hop_limit = 1}},
  };
  CHECK(ibv_query_gid(pair->context, PORT, GID_INDEX, &attr.ah_attr.grh.dgid) == 0);
  CHECK((errno = ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) == 0);
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  CHECK((errno = ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)) == 0);
}

void pair_connect(struct pair* pair) {
  connect_to(pair, pair->near_qp, pair->far_qp);
  connect_to(pair, pair->far_qp, pair->near_qp);
}

struct pair pair_open(uint32_t create_flags) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  CHECK(devices != NULL && devices[0] != NULL);
  CHECK(urocedv_is_supported(devices[0]));
  struct pair pair = {.context = ibv_open_device(devices[0])};
  ibv_free_device_list(devices);
  CHECK(pair.context != NULL);
  CHECK((pair.pd = ibv_alloc_pd(pair.context)) != NULL);
  CHECK((pair.cq = ibv_create_cq(pair.context, 4 * DEPTH, NULL, NULL, 0)) != NULL);
  pair.near_qp = create_qp(&pair, create_flags);
  pair.far_qp = create_qp(&pair, 0);
  pair.far_memory = pattern(FAR_BYTES, 0);
  pair.far_mr = ibv_reg_mr(pair.pd, pair.far_memory, FAR_BYTES,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  CHECK(pair.far_mr != NULL);
  pair_connect(&pair);
  return pair;
}

void pair_close(struct pair* pair) {
  CHECK((errno = ibv_destroy_qp(pair->near_qp)) == 0);
  CHECK((errno = ibv_destroy_qp(pair->far_qp)) == 0);
  CHECK((errno = ibv_dereg_mr(pair->far_mr)) == 0);
  CHECK((errno = ibv_destroy_cq(pair->cq)) == 0);
  CHECK((errno = ibv_dealloc_pd(pair->pd)) == 0);
  CHECK(ibv_close_device(pair->context) == 0);
  free(pair->far_memory);
}

struct ibv_wc pair_completion(struct pair* pair) {
  struct ibv_wc completion;
  int got;
  do {
    got = ibv_poll_cq(pair->cq, 1, &completion);
  } while (got == 0);
  CHECK(got == 1);
  return completion;
}

static enum ibv_wc_status post(struct pair* pair, struct ibv_qp* qp, enum ibv_wr_opcode opcode,
                               struct ibv_sge* segments, int count, uint64_t address, uint32_t rkey) {
  struct ibv_send_wr request = {.opcode = opcode,
                                .sg_list = segments,
                                .num_sge = count,
                                .wr.rdma = {.remote_addr = address, .rkey = rkey}};
  struct ibv_send_wr* bad;
  CHECK((errno = ibv_post_send(qp, &request, &bad)) == 0);
  return pair_completion(pair).status;
}

enum ibv_wc_status pair_write(struct pair* pair, struct ibv_sge* from, int segments) {
  return post(pair, pair->near_qp, IBV_WR_RDMA_WRITE, from, segments, (uintptr_t)pair->far_memory,
              pair->far_mr->rkey);
}

enum ibv_wc_status pair_read(struct pair* pair, struct ibv_sge* to, int segments) {
  return post(pair, pair->near_qp, IBV_WR_RDMA_READ, to, segments, (uintptr_t)pair->far_memory,
              pair->far_mr->rkey);
}

enum ibv_wc_status pair_far_write(struct pair* pair, uint64_t to, uint32_t rkey, uint32_t bytes) {
  struct ibv_sge from = {(uintptr_t)pair->far_memory, bytes, pair->far_mr->lkey};
  return post(pair, pair->far_qp, IBV_WR_RDMA_WRITE, &from, 1, to, rkey);
}

enum ibv_wc_status pair_far_read(struct pair* pair, uint64_t from, uint32_t rkey, uint32_t bytes) {
  struct ibv_sge to = {(uintptr_t)pair->far_memory, bytes, pair->far_mr->lkey};
  return post(pair, pair->far_qp, IBV_WR_RDMA_READ, &to, 1, from, rkey);
}

unsigned char* pattern(size_t bytes, unsigned char seed) {
  unsigned char* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  CHECK(memory != NULL);
  for (size_t i = 0; i < bytes; ++i) memory[i] = (unsigned char)(seed + i * 7);
  return memory;
}
