// A program of rdma_cm that is attacked, or that its friend connects to:
//
//   listener ADDRESS PORT              accepts everybody, and is silent
//   listener ADDRESS PORT PEER PORT    listens with a backlog of 8 and never looks at requests; at SIGUSR1 it
//   connects to PEER
//
// Says "listening", and "connected" or what failed. Ends by SIGTERM.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { kBacklog = 8, kWaitMs = 10000 };

static struct sockaddr_in address_of(const char* text, const char* port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

static int fail(const char* what) {
  printf("failed: %s: %s\n", what, strerror(errno));
  fflush(stdout);
  return -1;
}

static int make_queue_pair(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr wanted = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  return rdma_create_qp(id, NULL, &wanted);
}

static struct rdma_cm_event* next_event(struct rdma_event_channel* channel) {
  struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};
  struct rdma_cm_event* event = NULL;
  if (poll(&waiting, 1, kWaitMs) != 1) {
    errno = ETIMEDOUT;
    return NULL;
  }
  return rdma_get_cm_event(channel, &event) == 0 ? event : NULL;
}

static int expect(struct rdma_event_channel* channel, enum rdma_cm_event_type type) {
  struct rdma_cm_event* const event = next_event(channel);
  if (event == NULL) return fail(rdma_event_str(type));
  const enum rdma_cm_event_type came = event->event;
  rdma_ack_cm_event(event);
  if (came == type) return 0;
  printf("failed: %s, not %s\n", rdma_event_str(came), rdma_event_str(type));
  fflush(stdout);
  return -1;
}

static int connect_on(struct rdma_event_channel* channel, struct rdma_cm_id* id, struct sockaddr_in own,
                      struct sockaddr_in peer) {
  struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
  own.sin_port = 0;
  if (rdma_resolve_addr(id, (struct sockaddr*)&own, (struct sockaddr*)&peer, kWaitMs) != 0)
    return fail("rdma_resolve_addr");
  if (expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED) != 0) return -1;
  if (rdma_resolve_route(id, kWaitMs) != 0) return fail("rdma_resolve_route");
  if (expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) != 0) return -1;
  if (make_queue_pair(id) != 0) return fail("rdma_create_qp");
  if (rdma_connect(id, &param) != 0) return fail("rdma_connect");
  if (expect(channel, RDMA_CM_EVENT_ESTABLISHED) != 0) return -1;
  rdma_disconnect(id);
  return 0;
}

static void connect_once(struct sockaddr_in own, struct sockaddr_in peer) {
  struct rdma_event_channel* const channel = rdma_create_event_channel();
  struct rdma_cm_id* id = NULL;
  if (channel == NULL || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) {
    fail("rdma_create_id");
    return;
  }
  if (connect_on(channel, id, own, peer) == 0) printf("connected\n");
  fflush(stdout);
  if (id->qp != NULL) rdma_destroy_qp(id);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

static void serve(struct rdma_event_channel* channel) {
  struct rdma_cm_event* event = NULL;
  if (rdma_get_cm_event(channel, &event) != 0) return;
  struct rdma_cm_id* const id = event->id;
  const enum rdma_cm_event_type came = event->event;
  rdma_ack_cm_event(event);
  struct rdma_conn_param param = {.rnr_retry_count = 7};
  if (came == RDMA_CM_EVENT_CONNECT_REQUEST) {
    if (make_queue_pair(id) != 0 || rdma_accept(id, &param) != 0) fail("rdma_accept");
  } else if (came == RDMA_CM_EVENT_DISCONNECTED) {
    rdma_disconnect(id);
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
  }
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) return 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  const int signal_fd = signalfd(-1, &signals, 0);
  struct sockaddr_in own = address_of(argv[1], argv[2]);
  struct rdma_event_channel* const channel = rdma_create_event_channel();
  struct rdma_cm_id* listener = NULL;
  if (channel == NULL || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, (struct sockaddr*)&own) != 0 || rdma_listen(listener, kBacklog) != 0)
    return fail("rdma_listen"), 1;
  printf("listening\n");
  fflush(stdout);
  struct pollfd waiting[2] = {{.fd = signal_fd, .events = POLLIN},
                              {.fd = argc == 3 ? channel->fd : -1, .events = POLLIN}};
  while (poll(waiting, 2, -1) >= 0) {
    struct signalfd_siginfo info;
    if (waiting[1].revents != 0) serve(channel);
    if (waiting[0].revents == 0) continue;
    if (read(signal_fd, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGTERM) break;
    connect_once(own, address_of(argv[3], argv[4]));
  }
  return 0;
}
