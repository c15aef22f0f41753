// Bursts of datagrams between programs of one host, with a receive posted for each.
//
//     ud_burst receiver COUNT
//     ud_burst sender QPN GID [QPN GID]...
//
// A receiver posts COUNT receives, says "QPN GID", and receives until standard input says that all has been
// sent; then it says how many it has, and how many of them hold other bytes than were sent. A sender reads
// numbers of datagrams, sends so many to each receiver in turn, and says "sent".
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 1, GID_INDEX = 1, DEPTH = 128, WORDS = 256, GRH = 40, PEERS = 8, BURST = 32, QKEY = 0x11 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct ibv_mr* mr;
static char* memory;
static const size_t message_bytes = WORDS * sizeof(uint32_t);

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static void open_device(unsigned sends, unsigned receives) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY};
  const size_t bytes = (sends + receives) * (GRH + message_bytes);
  need(list != NULL && list[0] != NULL, "no device");
  context = ibv_open_device(list[0]);
  need(context != NULL, "ibv_open_device");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, (int)(sends + receives), NULL, NULL, 0);
  need(pd != NULL && cq != NULL, "ibv_create_cq");
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_UD,
      .sq_sig_all = 1};
  qp = ibv_create_qp(pd, &wanted);
  need(qp != NULL, "ibv_create_qp");
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "RTR");
  attr.qp_state = IBV_QPS_RTS;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
  memory = calloc(1, bytes);
  need(memory != NULL, "calloc");
  mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  need(mr != NULL, "ibv_reg_mr");
}

/// The words of the datagram `number`.
static uint32_t word_of(uint32_t number, uint32_t at) { return number * 2654435761u + at; }

static int is_whole(const char* message) {
  uint32_t words[WORDS];
  memcpy(words, message, sizeof(words));
  for (uint32_t i = 1; i < WORDS; ++i)
    if (words[i] != word_of(words[0], i)) return 0;
  return 1;
}

static int all_is_sent(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return poll(&input, 1, 0) != 0;
}

static int receive(unsigned count) {
  unsigned received = 0, wrong = 0;
  union ibv_gid gid;
  open_device(1, count);
  for (unsigned i = 0; i < count; ++i) {
    struct ibv_sge segment = {(uintptr_t)memory + i * (GRH + message_bytes), (uint32_t)(GRH + message_bytes),
                              mr->lkey};
    struct ibv_recv_wr request = {.wr_id = i, .sg_list = &segment, .num_sge = 1};
    struct ibv_recv_wr* bad;
    need(ibv_post_recv(qp, &request, &bad) == 0, "ibv_post_recv");
  }
  need(ibv_query_gid(context, PORT, GID_INDEX, &gid) == 0, "ibv_query_gid");
  printf("%u ", qp->qp_num);
  for (size_t i = 0; i < sizeof(gid.raw); ++i) printf("%02x", gid.raw[i]);
  printf("\n");
  fflush(stdout);
  // What has been sent is on its way: it is there when a poll finds nothing many times.
  for (int ends = 0, empty = 0; !ends || empty < 1000;) {
    struct ibv_wc completions[BURST];
    const int found = ibv_poll_cq(cq, BURST, completions);
    need(found >= 0, "ibv_poll_cq");
    if (!ends && found == 0) ends = all_is_sent();
    empty = found > 0 ? 0 : empty + ends;
    for (int i = 0; i < found; ++i) {
      need(completions[i].status == IBV_WC_SUCCESS, "receive");
      ++received;
      if (!is_whole(memory + completions[i].wr_id * (GRH + message_bytes) + GRH)) ++wrong;
    }
  }
  printf("received %u of %u, wrong %u\n", received, count, wrong);
  return 0;
}

struct peer {
  unsigned number;
  struct ibv_ah* address;
};

static void send_one(const struct peer* to, uint32_t number) {
  const size_t at = number % DEPTH * message_bytes;
  uint32_t words[WORDS] = {number};
  struct ibv_sge segment = {(uintptr_t)memory + at, (uint32_t)message_bytes, mr->lkey};
  struct ibv_send_wr request = {.sg_list = &segment, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad;
  for (uint32_t i = 1; i < WORDS; ++i) words[i] = word_of(number, i);
  memcpy(memory + at, words, sizeof(words));
  request.wr.ud.ah = to->address;
  request.wr.ud.remote_qpn = to->number;
  request.wr.ud.remote_qkey = QKEY;
  need(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
}

static int wait_for_one(void) {
  struct ibv_wc completion;
  int found;
  while ((found = ibv_poll_cq(cq, 1, &completion)) == 0) continue;
  return found == 1 && completion.status == IBV_WC_SUCCESS;
}

static void read_peer(struct peer* peer, const char* number, const char* gid) {
  struct ibv_ah_attr attr = {
      .is_global = 1, .port_num = PORT, .grh = {.sgid_index = GID_INDEX, .hop_limit = 1}};
  need(sscanf(number, "%u", &peer->number) == 1, "QPN");
  for (size_t i = 0; i < sizeof(attr.grh.dgid.raw); ++i)
    need(sscanf(gid + 2 * i, "%2hhx", &attr.grh.dgid.raw[i]) == 1, "GID");
  peer->address = ibv_create_ah(pd, &attr);
  need(peer->address != NULL, "ibv_create_ah");
}

static int send_bursts(int count, char** peers_said) {
  struct peer peers[PEERS];
  uint32_t sent = 0, done = 0;
  unsigned each;
  open_device(DEPTH, 1);
  for (int i = 0; i < count; ++i) read_peer(&peers[i], peers_said[2 * i], peers_said[2 * i + 1]);
  while (scanf("%u", &each) == 1) {
    for (const uint32_t end = sent + each * (uint32_t)count; sent != end; ++sent) {
      for (; sent - done == DEPTH; ++done) need(wait_for_one(), "send");
      send_one(&peers[sent % (uint32_t)count], sent);
    }
    for (; done != sent; ++done) need(wait_for_one(), "send");
    printf("sent\n");
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "receiver") == 0) return receive((unsigned)atoi(argv[2]));
  if (argc >= 4 && argc % 2 == 0 && argc <= 2 + 2 * PEERS && strcmp(argv[1], "sender") == 0)
    return send_bursts((argc - 2) / 2, argv + 2);
  return 2;
}
