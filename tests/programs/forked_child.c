// A child that opens a device after fork(), beside a parent that has one. Both write into each other's
// memory, and compare every byte.
//
//   forked_child none|open|closed GID_INDEX    what of the device there is in the parent before the fork
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 20, kRounds = 8 };

static const char* who = "parent";
static int gid_index;

static void must(int true_, const char* what) {
  if (true_) return;
  fprintf(stderr, "%s: %s: %s\n", who, what, strerror(errno));
  _exit(1);
}

struct end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_mr* region;
  struct ibv_qp* qp;
  unsigned char* memory;  // what is sent, and behind it what is received
};
struct card {  // what the other end needs
  uint32_t number, key;
  uint64_t address;
  union ibv_gid gid;
};

static struct ibv_context* open_first(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  must(list != NULL && list[0] != NULL, "ibv_get_device_list");
  struct ibv_context* context = ibv_open_device(list[0]);
  must(context != NULL, "ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

static struct end make_end(struct ibv_context* context, struct card* card) {
  struct end end = {
      .context = context, .pd = ibv_alloc_pd(context), .cq = ibv_create_cq(context, 16, NULL, NULL, 0)};
  must(end.pd != NULL && end.cq != NULL, "domain and completion queue");
  end.memory = malloc(2 * kBytes);
  end.region = ibv_reg_mr(end.pd, end.memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  must(end.region != NULL, "ibv_reg_mr");
  struct ibv_qp_init_attr wanted = {
      .send_cq = end.cq, .recv_cq = end.cq, .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
  end.qp = ibv_create_qp(end.pd, &wanted);
  must(end.qp != NULL, "ibv_create_qp");
  *card = (struct card){end.qp->qp_num, end.region->rkey, (uintptr_t)(end.memory + kBytes), {{0}}};
  must(ibv_query_gid(context, 1, gid_index, &card->gid) == 0, "ibv_query_gid");
  return end;
}

static void connect_end(struct end* end, const struct card* to) {
  struct ibv_qp_attr init = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  must(ibv_modify_qp(end->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
           0,
       "INIT");
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = to->number,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1, .port_num = 1}};
  rtr.ah_attr.grh.dgid = to->gid;
  rtr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
  rtr.ah_attr.grh.hop_limit = 64;
  must(ibv_modify_qp(end->qp, &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  must(ibv_modify_qp(end->qp, &rts,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static unsigned char byte_at(int child, int round, int i) {
  return (unsigned char)(i * 31 + round * 5 + child * 113 + (i >> 9));
}

static void swap(int to, int from, const void* ours, void* theirs, size_t bytes) {
  must(write(to, ours, bytes) == (ssize_t)bytes && read(from, theirs, bytes) == (ssize_t)bytes, "the pipe");
}

static void exchange(struct end* end, int child, int to, int from, struct card card) {
  struct card theirs;
  swap(to, from, &card, &theirs, sizeof card);
  connect_end(end, &theirs);
  char byte = 0;
  swap(to, from, &byte, &byte, 1);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kBytes; ++i) end->memory[i] = byte_at(child, round, i);
    struct ibv_sge part = {.addr = (uintptr_t)end->memory, .length = kBytes, .lkey = end->region->lkey};
    struct ibv_send_wr request = {.sg_list = &part,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr = {.rdma = {.remote_addr = theirs.address, .rkey = theirs.key}}},
                       *bad;
    must(ibv_post_send(end->qp, &request, &bad) == 0, "ibv_post_send");
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
    }
    must(count == 1 && wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
    swap(to, from, &byte, &byte, 1);
    for (int i = 0; i < kBytes; ++i) must(end->memory[kBytes + i] == byte_at(!child, round, i), "a byte");
    swap(to, from, &byte, &byte, 1);
  }
}

/// What it has inherited stays dead, also beside a device of its own.
static void check_inherited(struct end* parents) {
  struct ibv_port_attr port;
  must(ibv_query_port(parents->context, 1, &port) == EIO, "ibv_query_port of the parent's context");
  must(ibv_alloc_pd(parents->context) == NULL && errno == EIO, "ibv_alloc_pd of the parent's context");
  must(ibv_destroy_qp(parents->qp) == EIO, "ibv_destroy_qp of the parent's queue pair");
  must(ibv_dereg_mr(parents->region) == EIO, "ibv_dereg_mr of the parent's region");
  must(ibv_close_device(parents->context) == 0, "ibv_close_device of the parent's context");
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const int had = strcmp(arguments[1], "none") != 0;
  const int keeps = strcmp(arguments[1], "open") == 0;
  gid_index = atoi(arguments[2]);
  int down[2], up[2];
  must(pipe(down) == 0 && pipe(up) == 0, "pipe");
  struct card card, unused;
  struct end end = {0};
  if (had) {
    struct ibv_context* context = open_first();
    if (keeps)
      end = make_end(context, &card);
    else
      must(ibv_close_device(context) == 0, "ibv_close_device");
  }
  pid_t child = fork();
  must(child >= 0, "fork");
  if (child == 0) {
    who = "child";
    close(down[1]);
    close(up[0]);
    struct end own = make_end(open_first(), &unused);
    if (keeps) check_inherited(&end);
    exchange(&own, 1, up[1], down[0], unused);
    // A child of the child, too.
    pid_t grandchild = fork();
    if (grandchild == 0) {
      who = "grandchild";
      own = make_end(open_first(), &unused);
      exit(ibv_destroy_qp(own.qp));
    }
    int status = 1;
    must(waitpid(grandchild, &status, 0) == grandchild && status == 0, "the grandchild");
    exit(0);
  }
  close(down[0]);
  close(up[1]);
  signal(SIGPIPE, SIG_IGN);
  if (!keeps) end = make_end(open_first(), &card);
  exchange(&end, 0, down[1], up[0], card);
  int status = 1;
  must(waitpid(child, &status, 0) == child && status == 0, "the child");
  printf("%d rounds each\n", kRounds);
  return 0;
}
