// Connections whose clients end in any way. Each client sends one message, whose bytes are compared, and
// ends; the server expects DISCONNECTED within five seconds, and its receives flushed.
//
//   ended_peers server ADDRESS PORT CLIENTS    says a line for each client
//   ended_peers client ADDRESS PORT HOW
//
// HOW: kill, int, term, abort, _exit, exit; fork and clone: kill, beside a child that has run handlers of
// fork or not.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 4096, kReceives = 4, kWithinMs = 5000, kPatienceMs = 30000 };

static void must(int true_, const char* what) {
  if (true_) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static unsigned char byte_at(int i) { return (unsigned char)(i * 7 + 3); }

static struct rdma_cm_event* next_event(struct rdma_event_channel* channel, int timeout_ms) {
  struct pollfd source = {.fd = channel->fd, .events = POLLIN};
  struct rdma_cm_event* event = NULL;
  if (poll(&source, 1, timeout_ms) <= 0) return NULL;
  must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  return event;
}

static struct rdma_cm_id* expect(struct rdma_event_channel* channel, enum rdma_cm_event_type type,
                                 int timeout_ms) {
  struct rdma_cm_event* event = next_event(channel, timeout_ms);
  if (event == NULL || event->event != type) {
    fprintf(stderr, "expected %s, got %s\n", rdma_event_str(type),
            event == NULL ? "nothing" : rdma_event_str(event->event));
    exit(1);
  }
  struct rdma_cm_id* id = event->id;
  must(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
  return id;
}

static int completion(struct ibv_cq* cq, struct ibv_wc* wc) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (;;) {
    int count = ibv_poll_cq(cq, 1, wc);
    must(count >= 0, "ibv_poll_cq");
    if (count > 0) return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - begin.tv_sec) * 1000 > kPatienceMs) return 0;
  }
}

static void make_queue_pair(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
  must(rdma_create_qp(id, NULL, &wanted) == 0, "rdma_create_qp");
}

static void serve_one(struct rdma_event_channel* channel, int number) {
  struct rdma_cm_id* id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, kPatienceMs);
  make_queue_pair(id);
  unsigned char* memory = calloc(kReceives, kBytes);
  struct ibv_mr* region = ibv_reg_mr(id->pd, memory, kReceives * kBytes, IBV_ACCESS_LOCAL_WRITE);
  must(region != NULL, "ibv_reg_mr");
  for (int i = 0; i < kReceives; ++i) {
    struct ibv_sge part = {.addr = (uintptr_t)(memory + i * kBytes), .length = kBytes, .lkey = region->lkey};
    struct ibv_recv_wr request = {.wr_id = (uint64_t)i, .sg_list = &part, .num_sge = 1}, *bad;
    must(ibv_post_recv(id->qp, &request, &bad) == 0, "ibv_post_recv");
  }
  struct rdma_conn_param parameters = {.rnr_retry_count = 7};
  must(rdma_accept(id, &parameters) == 0, "rdma_accept");
  expect(channel, RDMA_CM_EVENT_ESTABLISHED, kPatienceMs);
  struct ibv_wc wc;
  must(completion(id->recv_cq, &wc) && wc.status == IBV_WC_SUCCESS && wc.byte_len == kBytes, "the message");
  for (int i = 0; i < kBytes; ++i)
    must(memory[wc.wr_id * kBytes + (uint64_t)i] == byte_at(i), "a byte of the message");
  expect(channel, RDMA_CM_EVENT_DISCONNECTED, kWithinMs);
  must(rdma_disconnect(id) == 0, "rdma_disconnect");
  for (int i = 1; i < kReceives; ++i)
    must(completion(id->recv_cq, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR, "a receive that is flushed");
  rdma_destroy_qp(id);
  ibv_dereg_mr(region);
  rdma_destroy_id(id);
  // What was under way for it.
  for (struct rdma_cm_event* event; (event = next_event(channel, 10)) != NULL;) {
    if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
      fprintf(stderr, "an event after the end: %s\n", rdma_event_str(event->event));
      exit(1);
    }
    rdma_ack_cm_event(event);
  }
  free(memory);
  // Said last: the test starts the next client then, whose request is no event of this one.
  printf("%d: disconnected\n", number);
}

static int end(const char* how, struct rdma_cm_id* id) {
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "int") == 0) kill(getpid(), SIGINT);
  if (strcmp(how, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "fork") == 0 || strcmp(how, "clone") == 0) {
    // The child lives on for longer than the server waits.
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    pid_t child = strcmp(how, "fork") == 0 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    must(child >= 0, "fork");
    if (child == 0) {
      must(write(ends[1], "", 1) == 1, "write");
      for (int i = 0; i < 3; ++i) close(i);
      sleep(15);
      _exit(0);
    }
    char byte;
    must(read(ends[0], &byte, 1) == 1, "read");
    kill(getpid(), SIGKILL);
  }
  (void)id;
  fprintf(stderr, "no such end: %s\n", how);
  return 2;
}

static int connect_and_end(struct sockaddr_in* address, const char* how) {
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id = NULL;
  must(channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_resolve_addr(id, NULL, (struct sockaddr*)address, 2000) == 0, "rdma_resolve_addr");
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, kPatienceMs);
  must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, kPatienceMs);
  make_queue_pair(id);
  struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
  must(rdma_connect(id, &parameters) == 0, "rdma_connect");
  expect(channel, RDMA_CM_EVENT_ESTABLISHED, kPatienceMs);
  static unsigned char memory[kBytes];
  for (int i = 0; i < kBytes; ++i) memory[i] = byte_at(i);
  struct ibv_mr* region = ibv_reg_mr(id->pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
  must(region != NULL, "ibv_reg_mr");
  struct ibv_sge part = {.addr = (uintptr_t)memory, .length = kBytes, .lkey = region->lkey};
  struct ibv_send_wr request = {.sg_list = &part,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  must(ibv_post_send(id->qp, &request, &bad) == 0, "ibv_post_send");
  struct ibv_wc wc;
  must(completion(id->send_cq, &wc) && wc.status == IBV_WC_SUCCESS, "the completion");
  return end(how, id);
}

int main(int count, char** arguments) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count != 5) return 2;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[3]))};
  must(inet_pton(AF_INET, arguments[2], &address.sin_addr) == 1, "inet_pton");
  if (strcmp(arguments[1], "client") == 0) return connect_and_end(&address, arguments[4]);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* listener = NULL;
  must(channel != NULL && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0, "rdma_bind_addr");
  must(rdma_listen(listener, 8) == 0, "rdma_listen");
  printf("listens\n");
  for (int i = 0; i < atoi(arguments[4]); ++i) serve_one(channel, i);
  return 0;
}
