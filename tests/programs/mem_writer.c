/* A client of a memory server that does not stop:
 *
 *     mem_writer ADDRESS NAME
 *
 * Says the key of the region, then writes the numbers 1, 2, 3 ... to PLACES places of it, each of 8 bytes in
 * its own byte order, until its input ends. Then it says the last number, which stands at all places, and
 * exits with 0; with 1 when a WRITE fails. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST = 56, NAME_AT = 8, ADDRESS_AT = 8, LENGTH_AT = 16, KEY_AT = 24, PLACES = 64 };

static _Noreturn void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static uint64_t number_at(const unsigned char* bytes, int count) {
  uint64_t number = 0;
  int i;
  for (i = 0; i < count; ++i) number = number << 8 | bytes[i];
  return number;
}

static struct rdma_cm_id* connect_to(const char* address, const char* name) {
  unsigned char request[REQUEST] = "UMEM\1";
  char port[] = "18520";
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* server = NULL;
  struct ibv_qp_init_attr queues = {.cap = {PLACES, 1, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_conn_param param = {
      .private_data = request, .private_data_len = REQUEST, .retry_count = 7, .rnr_retry_count = 7};
  struct rdma_cm_id* id = NULL;
  uint8_t timeout = 16; /* 268 ms, as `uroce mem` */
  strncpy((char*)request + NAME_AT, name, REQUEST - NAME_AT - 1);
  if (rdma_getaddrinfo(address, port, &hints, &server) != 0) fail("rdma_getaddrinfo", strerror(errno));
  if (rdma_create_ep(&id, server, NULL, &queues) != 0) fail("rdma_create_ep", strerror(errno));
  rdma_freeaddrinfo(server);
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) != 0)
    fail("rdma_set_option", strerror(errno));
  if (rdma_connect(id, &param) != 0) fail("rdma_connect", strerror(errno));
  return id;
}

static int input_has_ended(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return poll(&input, 1, 1) != 0;
}

int main(int count, char** arguments) {
  struct rdma_cm_id* id;
  const unsigned char* grant;
  uint64_t address, step, number = 0;
  uint32_t key;
  struct ibv_mr* memory;
  struct ibv_wc done;
  int i;
  if (count != 3) fail("usage", "mem_writer ADDRESS NAME");
  id = connect_to(arguments[1], arguments[2]);
  grant = id->event->param.conn.private_data;
  if (grant == NULL || id->event->param.conn.private_data_len < KEY_AT + 4) fail("grant", "too short");
  address = number_at(grant + ADDRESS_AT, 8);
  step = number_at(grant + LENGTH_AT, 8) / PLACES;
  key = (uint32_t)number_at(grant + KEY_AT, 4);
  memory = rdma_reg_msgs(id, &number, sizeof(number));
  if (memory == NULL) fail("ibv_reg_mr", strerror(errno));
  printf("%u\n", key);
  fflush(stdout);
  while (!input_has_ended()) {
    ++number;
    for (i = 0; i < PLACES; ++i)
      if (rdma_post_write(id, NULL, &number, sizeof(number), memory, 0, address + step * (uint64_t)i, key) !=
          0)
        fail("ibv_post_send", strerror(errno));
    for (i = 0; i < PLACES; ++i) {
      if (rdma_get_send_comp(id, &done) <= 0) fail("completion", strerror(errno));
      if (done.status != IBV_WC_SUCCESS) fail("WRITE", ibv_wc_status_str(done.status));
    }
  }
  printf("%llu\n", (unsigned long long)number);
  return 0;
}
