/* A member of a multicast group, or a sender to it, by verbs alone.
 *
 *     group_member receive GID_INDEX GROUP COUNT
 *     group_member send GID_INDEX GROUP
 *     group_member idle GID_INDEX
 *
 * GROUP is an IPv6 address, or ::ffff:a.b.c.d. The member writes "member" when it is one, "received" when
 * COUNT datagrams have come with the bytes that the sender sends, and "left" when it is no member any more,
 * which is after a line of its standard input. The sender sends 20 datagrams a second until its standard
 * input ends. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 256, kHeaderBytes = 40, kReceives = 64, kQkey = 0x11223344, kGroupNumber = 0xFFFFFF };

static void check(int fine, const char* what) {
  if (fine) return;
  perror(what);
  exit(1);
}

static void say(const char* word) {
  puts(word);
  fflush(stdout);
}

struct end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_mr* mr;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  char memory[kReceives][kHeaderBytes + kBytes];
};

static void open_end(struct end* end) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  check(list != NULL && list[0] != NULL, "devices");
  end->context = ibv_open_device(list[0]);
  check(end->context != NULL, "open");
  ibv_free_device_list(list);
  end->pd = ibv_alloc_pd(end->context);
  check(end->pd != NULL, "domain");
  end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory, IBV_ACCESS_LOCAL_WRITE);
  check(end->mr != NULL, "memory");
  end->cq = ibv_create_cq(end->context, 2 * kReceives, NULL, NULL, 0);
  check(end->cq != NULL, "completion queue");
  struct ibv_qp_init_attr wanted = {.send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_UD};
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kReceives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  end->qp = ibv_create_qp(end->pd, &wanted);
  check(end->qp != NULL, "queue pair");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  check(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
        "INIT");
  attr.qp_state = IBV_QPS_RTR;
  check(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE) == 0, "RTR");
  attr.qp_state = IBV_QPS_RTS;
  check(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
}

static void post_receive(struct end* end, unsigned slot) {
  struct ibv_sge sge = {(uintptr_t)end->memory[slot], sizeof end->memory[slot], end->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
  memset(end->memory[slot], 0xEE, sizeof end->memory[slot]);
  check(ibv_post_recv(end->qp, &wr, &bad) == 0, "receive");
}

static void fill(char* bytes) {
  for (int i = 0; i < kBytes; ++i) bytes[i] = (char)(i * 7 + 3);
}

static int has_input(int wait_ms) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&input, 1, wait_ms) > 0;
}

static void wait_for_line(void) {
  char line[16];
  while (read(STDIN_FILENO, line, sizeof line) < 0) {
  }
}

static void receive(struct end* end, union ibv_gid* group, int count) {
  char right[kBytes];
  fill(right);
  for (unsigned slot = 0; slot < kReceives; ++slot) post_receive(end, slot);
  check(ibv_attach_mcast(end->qp, group, 0) == 0, "attach");
  say("member");
  for (int received = 0; received < count;) {
    struct ibv_wc wc;
    int polled = ibv_poll_cq(end->cq, 1, &wc);
    if (polled == 0) {
      usleep(1000);
      continue;
    }
    check(polled == 1 && wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
    check(wc.byte_len == kHeaderBytes + kBytes, "length");
    check(memcmp(end->memory[wc.wr_id] + kHeaderBytes, right, kBytes) == 0, "bytes");
    post_receive(end, (unsigned)wc.wr_id);
    ++received;
  }
  say("received");
  wait_for_line();
  check(ibv_detach_mcast(end->qp, group, 0) == 0, "detach");
  say("left");
  wait_for_line();
}

static void send_to(struct end* end, uint8_t gid_index, union ibv_gid* group) {
  struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
  to.grh.dgid = *group;
  to.grh.sgid_index = gid_index;
  to.grh.hop_limit = 8;
  struct ibv_ah* ah = ibv_create_ah(end->pd, &to);
  check(ah != NULL, "address handle");
  fill(end->memory[0]);
  do {
    struct ibv_sge sge = {(uintptr_t)end->memory[0], kBytes, end->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = kGroupNumber;
    wr.wr.ud.remote_qkey = kQkey;
    check(ibv_post_send(end->qp, &wr, &bad) == 0, "send");
    struct ibv_wc wc;
    int polled;
    while ((polled = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
    }
    check(polled == 1 && wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
  } while (!has_input(50));
  check(ibv_destroy_ah(ah) == 0, "end of the address handle");
}

int main(int count, char** words) {
  static struct end end;
  union ibv_gid group = {{0}};
  check(count >= 3, "usage");
  open_end(&end);
  if (strcmp(words[1], "idle") == 0) {
    say("ready");
    wait_for_line();
  } else {
    check(count >= 4 && inet_pton(AF_INET6, words[3], group.raw) == 1, "group");
    if (strcmp(words[1], "receive") == 0)
      receive(&end, &group, count > 4 ? atoi(words[4]) : 1);
    else
      send_to(&end, (uint8_t)atoi(words[2]), &group);
  }
  check(ibv_destroy_qp(end.qp) == 0 && ibv_destroy_cq(end.cq) == 0 && ibv_dereg_mr(end.mr) == 0 &&
            ibv_dealloc_pd(end.pd) == 0 && ibv_close_device(end.context) == 0,
        "end");
  return 0;
}
