// A SEND to a program that leaves as soon as it has heard of it: whether its sender hears of that, too.
//
//     last_ack sender
//     last_ack receiver LEAVING HEARING
//
// Each end says "QPN GID" and is told that of its peer by standard input, a receiver with two numbers in
// front: so many messages that it answers, and so many that it does not. The sender serves one receiver after
// the other, and says the status of its last message.
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PORT = 1, GID_INDEX = 1, DEPTH = 64, BYTES = 64 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_mr* mr;
static struct ibv_comp_channel* channel;
static struct ibv_cq_ex* completions;
static char memory[BYTES];

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static struct ibv_cq* cq(void) { return ibv_cq_ex_to_cq(completions); }

static void open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_cq_init_attr_ex wanted = {.cqe = 2 * DEPTH};
  need(list != NULL && list[0] != NULL, "no device");
  context = ibv_open_device(list[0]);
  need(context != NULL, "ibv_open_device");
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  need(pd != NULL, "ibv_alloc_pd");
  mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
  need(mr != NULL, "ibv_reg_mr");
  channel = ibv_create_comp_channel(context);
  need(channel != NULL, "ibv_create_comp_channel");
  wanted.channel = channel;
  completions = ibv_create_cq_ex(context, &wanted);
  need(completions != NULL, "ibv_create_cq_ex");
}

static struct ibv_qp* make_queue_pair(void) {
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq(),
      .recv_cq = cq(),
      .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
  struct ibv_qp* qp = ibv_create_qp(pd, &wanted);
  need(qp != NULL, "ibv_create_qp");
  need(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  return qp;
}

static void say_who(const struct ibv_qp* qp) {
  union ibv_gid gid;
  need(ibv_query_gid(context, PORT, GID_INDEX, &gid) == 0, "ibv_query_gid");
  printf("%u ", qp->qp_num);
  for (size_t i = 0; i < sizeof(gid.raw); ++i) printf("%02x", gid.raw[i]);
  printf("\n");
  fflush(stdout);
}

static void connect_to(struct ibv_qp* qp, uint32_t number, const char* gid) {
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = number,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.sgid_index = GID_INDEX, .hop_limit = 1}}};
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  for (size_t i = 0; i < sizeof(rtr.ah_attr.grh.dgid.raw); ++i)
    need(sscanf(gid + 2 * i, "%2hhx", &rtr.ah_attr.grh.dgid.raw[i]) == 1, "GID");
  need(ibv_modify_qp(qp, &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  need(ibv_modify_qp(qp, &rts,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static void send_one(struct ibv_qp* qp) {
  struct ibv_sge segment = {(uintptr_t)memory, sizeof(memory), mr->lkey};
  struct ibv_send_wr request = {.sg_list = &segment, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad;
  need(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
}

static void receive_one(struct ibv_qp* qp) {
  struct ibv_sge segment = {(uintptr_t)memory, sizeof(memory), mr->lkey};
  struct ibv_recv_wr request = {.sg_list = &segment, .num_sge = 1};
  struct ibv_recv_wr* bad;
  need(ibv_post_recv(qp, &request, &bad) == 0, "ibv_post_recv");
}

static struct ibv_wc wait_by_poll(void) {
  struct ibv_wc completion;
  int count;
  while ((count = ibv_poll_cq(cq(), 1, &completion)) == 0) continue;
  need(count == 1, "ibv_poll_cq");
  return completion;
}

static struct ibv_wc wait_by_start_poll(void) {
  struct ibv_poll_cq_attr none = {0};
  struct ibv_wc completion = {0};
  int error;
  while ((error = ibv_start_poll(completions, &none)) == ENOENT) continue;
  need(error == 0, "ibv_start_poll");
  completion.status = completions->status;
  completion.opcode = ibv_wc_read_opcode(completions);
  ibv_end_poll(completions);
  return completion;
}

static struct ibv_wc wait_by_event(void) {
  struct ibv_wc completion;
  struct ibv_cq* of;
  void* ignored;
  int count;
  need(ibv_req_notify_cq(cq(), 0) == 0, "ibv_req_notify_cq");
  while ((count = ibv_poll_cq(cq(), 1, &completion)) == 0) {
    need(ibv_get_cq_event(channel, &of, &ignored) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(of, 1);
  }
  need(count == 1, "ibv_poll_cq");
  return completion;
}

/// Of the completions of one opcode, which comes for each message.
static enum ibv_wc_status wait_for(struct ibv_wc (*wait)(void), enum ibv_wc_opcode opcode) {
  struct ibv_wc completion;
  do {
    completion = wait();
  } while (completion.status == IBV_WC_SUCCESS && completion.opcode != opcode);
  return completion.status;
}

static void leave(const char* how) {
  const struct rlimit none = {0, 0};
  if (strcmp(how, "exit") == 0) _exit(0);
  if (strcmp(how, "exec") == 0) execl("/bin/true", "true", NULL);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "sleep") == 0) pause();
  setrlimit(RLIMIT_CORE, &none);
  abort();
}

static int receive(const char* leaving, const char* hearing) {
  struct ibv_wc (*wait)(void) = strcmp(hearing, "event") == 0        ? wait_by_event
                                : strcmp(hearing, "start_poll") == 0 ? wait_by_start_poll
                                                                     : wait_by_poll;
  struct ibv_qp* const qp = make_queue_pair();
  unsigned answered, unanswered, number;
  char gid[33];
  for (int i = 0; i < DEPTH; ++i) receive_one(qp);
  say_who(qp);
  need(scanf("%u %u %u %32s", &answered, &unanswered, &number, gid) == 4, "peer");
  connect_to(qp, number, gid);
  printf("ready\n");
  fflush(stdout);
  for (; answered > 0; --answered) {
    need(wait_for(wait, IBV_WC_RECV) == IBV_WC_SUCCESS, "receive");
    receive_one(qp);
    send_one(qp);
  }
  for (; unanswered > 0; --unanswered) need(wait_for(wait, IBV_WC_RECV) == IBV_WC_SUCCESS, "receive");
  leave(leaving);
  return 1;
}

/// `answered` messages of which each waits for the answer to the one before it, then the others at once.
static enum ibv_wc_status send_all(struct ibv_qp* qp, unsigned answered, unsigned unanswered) {
  enum ibv_wc_status status = IBV_WC_SUCCESS;
  for (; answered > 0 && status == IBV_WC_SUCCESS; --answered) {
    unsigned ends = 2;
    receive_one(qp);
    send_one(qp);
    for (; ends > 0 && status == IBV_WC_SUCCESS; --ends) status = wait_by_poll().status;
  }
  for (unsigned i = 0; i < unanswered; ++i) send_one(qp);
  for (; unanswered > 0 && status == IBV_WC_SUCCESS; --unanswered) status = wait_by_poll().status;
  return status;
}

static int serve(void) {
  unsigned answered, unanswered, number;
  char gid[33];
  printf("open\n");
  fflush(stdout);
  while (scanf("%u %u %u %32s", &answered, &unanswered, &number, gid) == 4) {
    struct ibv_qp* const qp = make_queue_pair();
    char word[8];
    struct ibv_wc rest;
    connect_to(qp, number, gid);
    say_who(qp);
    need(scanf("%7s", word) == 1, "word to go");
    printf("%s\n", ibv_wc_status_str(send_all(qp, answered, unanswered)));
    fflush(stdout);
    ibv_destroy_qp(qp);
    while (ibv_poll_cq(cq(), 1, &rest) > 0) continue;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  open_device();
  if (strcmp(argv[1], "sender") == 0) return serve();
  return argc == 4 ? receive(argv[2], argv[3]) : 2;
}
