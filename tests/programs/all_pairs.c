// All ranks of a job write into buffers of all others, which are used again and again:
//
//     all_pairs RANKS ROUNDS
//
// In a round each rank WRITEs a message with immediate data into a buffer of each other rank, takes those of
// the others and compares every byte. There are two buffers for each pair, and nothing says that one is free
// but the message of the round before: a peer has sent that after it has read what lay there. Libraries of
// collective operations exchange data so. Ranks are processes, which end right behind their last round.
#define _GNU_SOURCE  // MAP_ANONYMOUS
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, PORT = 1, GID_INDEX = 1, BYTES_MAX = 100000, BUFFERS = 2, DEPTH = 8 };

/// What the ranks say of themselves, before they are connected.
struct shown {
  _Atomic int shown;      // ranks that have shown all
  _Atomic int connected;  // ranks that can receive
  union ibv_gid gid[RANKS_MAX];
  uint64_t address[RANKS_MAX];
  uint32_t rkey[RANKS_MAX];
  uint32_t number[RANKS_MAX][RANKS_MAX];  // of the queue pair of one to another
};

static struct shown* all;
static int rank, ranks;
static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_qp* qps[RANKS_MAX];
static struct ibv_mr* mr;
static unsigned char* memory;  // buffers of each peer, and what is sent to it
static int sends[RANKS_MAX];   // to each that are not complete
static int arrived[RANKS_MAX];

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static size_t buffer_of(int peer, int round) {
  return ((size_t)peer * BUFFERS + (size_t)round % BUFFERS) * BYTES_MAX;
}
static size_t source_of(int peer, int round) {
  return (size_t)ranks * BUFFERS * BYTES_MAX + buffer_of(peer, round);
}
static uint32_t bytes_of(int from, int to, int round) {
  return 1 + (uint32_t)(from * 7919 + to * 104729 + round * 15485863) % BYTES_MAX;
}
static unsigned char byte_of(int from, int to, int round, uint32_t at) {
  return (unsigned char)((at * 2654435761u >> 13) + (uint32_t)(from * 31 + to * 7 + round * 3));
}

static void wait_for_all(_Atomic int* count) {
  atomic_fetch_add(count, 1);
  while (atomic_load(count) < ranks) sched_yield();
}

static void post_receive(int peer) {
  struct ibv_recv_wr request = {.wr_id = (uint64_t)peer};
  struct ibv_recv_wr* bad;
  need(ibv_post_recv(qps[peer], &request, &bad) == 0, "ibv_post_recv");
}

static void open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  const size_t bytes = 2 * (size_t)ranks * BUFFERS * BYTES_MAX;
  need(list != NULL && list[0] != NULL, "no device");
  context = ibv_open_device(list[0]);
  need(context != NULL, "ibv_open_device");
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, RANKS_MAX * 2 * DEPTH, NULL, NULL, 0);
  memory = malloc(bytes);
  need(pd != NULL && cq != NULL && memory != NULL, "ibv_create_cq");
  mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(mr != NULL, "ibv_reg_mr");
}

static void show(void) {
  need(ibv_query_gid(context, PORT, GID_INDEX, &all->gid[rank]) == 0, "ibv_query_gid");
  all->address[rank] = (uintptr_t)memory;
  all->rkey[rank] = mr->rkey;
  for (int peer = 0; peer < ranks; ++peer) {
    struct ibv_qp_init_attr wanted = {.send_cq = cq,
                                      .recv_cq = cq,
                                      .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1},
                                      .qp_type = IBV_QPT_RC,
                                      .sq_sig_all = 1};
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    if (peer == rank) continue;
    qps[peer] = ibv_create_qp(pd, &wanted);
    need(qps[peer] != NULL, "ibv_create_qp");
    need(ibv_modify_qp(qps[peer], &init,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "INIT");
    for (int i = 0; i < DEPTH / 2; ++i) post_receive(peer);
    all->number[rank][peer] = qps[peer]->qp_num;
  }
  wait_for_all(&all->shown);
}

static void connect_to(int peer) {
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = all->number[peer][rank],
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1,
                  .port_num = PORT,
                  .grh = {.dgid = all->gid[peer], .sgid_index = GID_INDEX, .hop_limit = 1}}};
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  need(ibv_modify_qp(qps[peer], &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  need(ibv_modify_qp(qps[peer], &rts,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static void write_to(int peer, int round) {
  const uint32_t bytes = bytes_of(rank, peer, round);
  unsigned char* const from = memory + source_of(peer, round);
  struct ibv_sge segment = {(uintptr_t)from, bytes, mr->lkey};
  struct ibv_send_wr request = {.wr_id = (uint64_t)peer,
                                .sg_list = &segment,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                .imm_data = htonl((uint32_t)round),
                                .wr.rdma = {all->address[peer] + buffer_of(rank, round), all->rkey[peer]}};
  struct ibv_send_wr* bad;
  for (uint32_t i = 0; i < bytes; ++i) from[i] = byte_of(rank, peer, round, i);
  need(ibv_post_send(qps[peer], &request, &bad) == 0, "ibv_post_send");
  ++sends[peer];
}

static void take_completion(void) {
  struct ibv_wc completion;
  int found;
  while ((found = ibv_poll_cq(cq, 1, &completion)) == 0) continue;
  need(found == 1, "ibv_poll_cq");
  if (completion.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "rank %d: %s\n", rank, ibv_wc_status_str(completion.status));
    exit(1);
  }
  const int peer = (int)completion.wr_id;
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    --sends[peer];
    return;
  }
  need((int)ntohl(completion.imm_data) == arrived[peer]++, "a message of another round");
  post_receive(peer);
}

static int check(int peer, int round) {
  const unsigned char* const got = memory + buffer_of(peer, round);
  for (uint32_t i = 0; i < bytes_of(peer, rank, round); ++i)
    if (got[i] != byte_of(peer, rank, round, i)) return 0;
  return 1;
}

static int run_rank(int rounds) {
  int wrong = 0;
  open_device();
  show();
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) connect_to(peer);
  wait_for_all(&all->connected);
  for (int round = 0; round < rounds; ++round) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      // What was sent two rounds before is complete: its source is written anew.
      while (sends[peer] == BUFFERS) take_completion();
      write_to(peer, round);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      while (arrived[peer] <= round) take_completion();
      wrong += !check(peer, round);
    }
  }
  for (int peer = 0; peer < ranks; ++peer)
    while (sends[peer] > 0) take_completion();
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) ibv_destroy_qp(qps[peer]);
  if (wrong != 0) fprintf(stderr, "rank %d: %d messages with wrong bytes\n", rank, wrong);
  return wrong != 0;
}

int main(int argc, char** argv) {
  int failed = 0, status;
  pid_t children[RANKS_MAX];
  if (argc != 3 || atoi(argv[1]) < 2 || atoi(argv[1]) > RANKS_MAX) return 2;
  ranks = atoi(argv[1]);
  all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(all != MAP_FAILED, "mmap");
  for (rank = 0; rank < ranks; ++rank) {
    children[rank] = fork();
    need(children[rank] >= 0, "fork");
    if (children[rank] == 0) return run_rank(atoi(argv[2]));
  }
  while (wait(&status) > 0) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (failed++ > 0) continue;
    for (int i = 0; i < ranks; ++i) kill(children[i], SIGTERM);  // which would wait for it
  }
  printf("%d ranks, %s rounds, %d failed\n", ranks, argv[2], failed);
  return failed != 0;
}
