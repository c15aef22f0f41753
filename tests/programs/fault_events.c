// Makes a queue pair, says its number, and then each event that comes, until one is fatal for the device.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static void check(const void* made, const char* what) {
  if (made != NULL) return;
  perror(what);
  exit(1);
}

static void drain(struct ibv_cq* completions) {
  struct ibv_wc flushed;
  int found = 0;
  while ((found = ibv_poll_cq(completions, 1, &flushed)) == 1)
    printf("receive %u: %s\n", (unsigned)flushed.wr_id, ibv_wc_status_str(flushed.status));
  if (found < 0) printf("completion queue %u has overflowed\n", completions->handle);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct ibv_device** devices = ibv_get_device_list(NULL);
  check(devices, "ibv_get_device_list");
  check(devices[0], "no device");
  struct ibv_context* context = ibv_open_device(devices[0]);
  check(context, "ibv_open_device");
  struct ibv_pd* domain = ibv_alloc_pd(context);
  check(domain, "ibv_alloc_pd");
  struct ibv_cq* completions = ibv_create_cq(context, 16, NULL, NULL, 0);
  check(completions, "ibv_create_cq");
  struct ibv_qp_init_attr attributes = {
      .send_cq = completions,
      .recv_cq = completions,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  struct ibv_qp* queue_pair = ibv_create_qp(domain, &attributes);
  check(queue_pair, "ibv_create_qp");
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  struct ibv_recv_wr receive = {.wr_id = 7}, *bad = NULL;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(queue_pair, &init, mask) != 0 || ibv_post_recv(queue_pair, &receive, &bad) != 0) return 1;
  printf("queue pair %u\n", queue_pair->qp_num);
  struct ibv_async_event event;
  do {
    if (ibv_get_async_event(context, &event) != 0) return 1;
    printf("event: %s\n", ibv_event_type_str(event.event_type));
    if (event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == queue_pair) drain(completions);
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_DEVICE_FATAL);
  return 0;
}
