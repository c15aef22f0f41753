/* A program of a service that names queue pair numbers which are not its own:
 *
 *     cm_numbers ADDRESS PORT NONE OTHER...
 *
 * It listens there, connects to itself, and in the name of each OTHER, a number of another program's,
 * wants to connect and to accept, which has to be refused at once. In the name of NONE, which is no
 * program's, both have to do, as on hardware. It sends to each, which has to end as with any queue pair
 * that is not there: nothing answers. Exits with 0 if all is so. */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GID_INDEX = 1, TIMEOUT = 10 /* 4 ms */, RETRIES = 2, WAIT_MS = 2000 };

static _Noreturn void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static void expect(const char* what, int is, int wanted) {
  if (is == wanted) return;
  fprintf(stderr, "%s: %d, not %d\n", what, is, wanted);
  exit(1);
}

static struct rdma_cm_id* next(struct rdma_event_channel* channel, enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  struct rdma_cm_id* id;
  if (rdma_get_cm_event(channel, &event) != 0) fail("rdma_get_cm_event");
  if (event->event != wanted)
    fprintf(stderr, "%s with status %d\n", rdma_event_str(event->event), event->status);
  expect(rdma_event_str(wanted), (int)event->event, (int)wanted);
  id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

static struct ibv_qp* make_queue_pair(struct ibv_context* device) {
  struct ibv_pd* domain = ibv_alloc_pd(device);
  struct ibv_cq* completions = ibv_create_cq(device, 4, NULL, NULL, 0);
  struct ibv_qp_init_attr wanted = {.send_cq = completions,
                                    .recv_cq = completions,
                                    .cap = {2, 2, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};
  struct ibv_qp* queue_pair = domain && completions ? ibv_create_qp(domain, &wanted) : NULL;
  if (queue_pair == NULL) fail("ibv_create_qp");
  return queue_pair;
}

static void bring_up(struct ibv_qp* queue_pair, uint32_t peer) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  struct ibv_qp_attr receives = {
      .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 1};
  struct ibv_qp_attr sends = {.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = RETRIES};
  receives.ah_attr.is_global = 1;
  receives.ah_attr.port_num = 1;
  receives.ah_attr.grh.sgid_index = GID_INDEX;
  receives.ah_attr.grh.hop_limit = 1;
  if (ibv_query_gid(queue_pair->context, 1, GID_INDEX, &receives.ah_attr.grh.dgid) != 0)
    fail("ibv_query_gid");
  expect(
      "INIT",
      ibv_modify_qp(queue_pair, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      0);
  expect("RTR",
         ibv_modify_qp(queue_pair, &receives,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         0);
  expect("RTS",
         ibv_modify_qp(queue_pair, &sends,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC),
         0);
}

/* A WRITE of nothing to a queue pair number of no program, or to one that is not connected to us. */
static void expect_silence(struct ibv_context* device, uint32_t peer) {
  struct ibv_qp* queue_pair = make_queue_pair(device);
  struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE};
  struct ibv_send_wr* bad;
  struct ibv_wc done;
  int count;
  bring_up(queue_pair, peer);
  if (ibv_post_send(queue_pair, &request, &bad) != 0) fail("ibv_post_send");
  while ((count = ibv_poll_cq(queue_pair->send_cq, 1, &done)) == 0) {
  }
  expect("completions", count, 1);
  expect("status of a WRITE that is not answered", (int)done.status, IBV_WC_RETRY_EXC_ERR);
  ibv_destroy_qp(queue_pair);
}

static void expect_invalid(const char* what, int result) {
  expect(what, result, -1);
  expect(what, errno, EINVAL);
}

static struct rdma_cm_id* find_way(struct rdma_event_channel* channel, struct sockaddr_in* address) {
  struct rdma_cm_id* client;
  if (rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) != 0 ||
      rdma_resolve_addr(client, NULL, (struct sockaddr*)address, WAIT_MS) != 0)
    fail("rdma_resolve_addr");
  next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(client, WAIT_MS) != 0) fail("rdma_resolve_route");
  next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return client;
}

/* Two queue pairs that there are not: the one that asks, and the next number. */
static void connect_simulated(struct rdma_event_channel* channel, struct sockaddr_in* address,
                              uint32_t number) {
  struct rdma_cm_id *client = find_way(channel, address), *server;
  struct rdma_conn_param param = {.retry_count = RETRIES, .qp_num = number};
  if (rdma_connect(client, &param) != 0) fail("rdma_connect with a simulated queue pair");
  server = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  param.qp_num = number + 1;
  if (rdma_accept(server, &param) != 0) fail("rdma_accept with a simulated queue pair");
  next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
  if (rdma_establish(client) != 0) fail("rdma_establish");
  next(channel, RDMA_CM_EVENT_ESTABLISHED);
}

int main(int count, char** arguments) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_conn_param param = {.retry_count = RETRIES};
  struct rdma_cm_id *listener, *client, *server;
  int i;
  if (count < 5 || inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) return 2;
  address.sin_port = htons((uint16_t)atoi(arguments[2]));
  if (channel == NULL || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, (struct sockaddr*)&address) != 0 || rdma_listen(listener, 4) != 0)
    fail("rdma_cm");
  client = find_way(channel, &address);
  for (i = 4; i < count; ++i) {
    param.qp_num = (uint32_t)strtoul(arguments[i], NULL, 0);
    expect_invalid("rdma_connect", rdma_connect(client, &param));
  }
  /* The id is as it was, and its own queue pair does. */
  param.qp_num = make_queue_pair(client->verbs)->qp_num;
  if (rdma_connect(client, &param) != 0) fail("rdma_connect");
  server = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  for (i = 4; i < count; ++i) {
    param.qp_num = (uint32_t)strtoul(arguments[i], NULL, 0);
    expect_invalid("rdma_accept", rdma_accept(server, &param));
  }
  param.qp_num = make_queue_pair(server->verbs)->qp_num;
  if (rdma_accept(server, &param) != 0) fail("rdma_accept");
  next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
  if (rdma_establish(client) != 0) fail("rdma_establish");
  next(channel, RDMA_CM_EVENT_ESTABLISHED);
  connect_simulated(channel, &address, (uint32_t)strtoul(arguments[3], NULL, 0));
  for (i = 3; i < count; ++i) expect_silence(client->verbs, (uint32_t)strtoul(arguments[i], NULL, 0));
  return 0;
}
