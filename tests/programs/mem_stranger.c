/* A client of a memory server that breaks its protocol:
 *
 *     mem_stranger ADDRESS WRITABLE READABLE   requests and messages that are none; exits with 0 if the
 * answers are right mem_stranger ADDRESS NAME                connects until it is refused, says so, and stays
 * until its input ends */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { REQUEST = 56, FLUSH = 24, ANSWER = 16, NAME_AT = 8, CODE_AT = 5, CROWD_MAX = 1000 };
static char* the_address;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void expect(const char* what, int is, int wanted) {
  if (is == wanted) return;
  fprintf(stderr, "%s: %d, not %d\n", what, is, wanted);
  exit(1);
}

/* A connection; NULL: it was refused, by what `reason` then says, -1 if it says nothing. */
static struct rdma_cm_id* try_connect(const void* data, uint8_t bytes, int* reason) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* server = NULL;
  struct ibv_qp_init_attr queues = {.cap = {8, 8, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_cm_id* id = NULL;
  struct rdma_conn_param param = {.private_data = data,
                                  .private_data_len = bytes,
                                  .initiator_depth = 1,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7};
  char port[] = "18520";
  if (rdma_getaddrinfo(the_address, port, &hints, &server) != 0) fail("rdma_getaddrinfo", strerror(errno));
  if (rdma_create_ep(&id, server, NULL, &queues) != 0) fail("rdma_create_ep", strerror(errno));
  rdma_freeaddrinfo(server);
  if (rdma_connect(id, &param) == 0) return id;
  *reason = -1;
  if (id->event != NULL && id->event->event == RDMA_CM_EVENT_REJECTED &&
      id->event->param.conn.private_data_len >= 8)
    *reason = ((const unsigned char*)id->event->param.conn.private_data)[CODE_AT];
  rdma_destroy_ep(id);
  return NULL;
}

static void fill(unsigned char* request, const char* name) {
  memset(request, 0, REQUEST);
  memcpy(request, "UMEM\1", 5);
  memcpy(request + NAME_AT, name, strlen(name));
}

static struct rdma_cm_id* connect_to(const char* name) {
  unsigned char request[REQUEST];
  int reason = 0;
  struct rdma_cm_id* id;
  fill(request, name);
  id = try_connect(request, REQUEST, &reason);
  if (id == NULL) fail(name, "refused");
  return id;
}

static void expect_refusal(const char* what, const void* data, uint8_t bytes, int wanted) {
  int reason = 0;
  if (try_connect(data, bytes, &reason) != NULL) fail(what, "granted");
  expect(what, reason, wanted);
}

/* Sends a message and returns the error in the answer; -1: the connection is ended. */
static int answer_to(struct rdma_cm_id* id, const void* message, size_t bytes) {
  unsigned char place[FLUSH + ANSWER + 1024];
  struct ibv_mr* memory = rdma_reg_msgs(id, place, sizeof(place));
  struct ibv_wc done;
  uint32_t error;
  if (memory == NULL) fail("ibv_reg_mr", strerror(errno));
  memcpy(place + 1024, message, bytes);
  if (rdma_post_recv(id, NULL, place, 1024, memory) != 0) fail("receive", strerror(errno));
  if (rdma_post_send(id, NULL, place + 1024, bytes, memory, 0) != 0) fail("send", strerror(errno));
  if (rdma_get_recv_comp(id, &done) <= 0) fail("completion", strerror(errno));
  memcpy(&error, place + 8, sizeof(error));
  if (rdma_get_send_comp(id, &done) <= 0) fail("completion", strerror(errno));
  if (done.status != IBV_WC_SUCCESS) return -1;
  rdma_dereg_mr(memory);
  return (int)ntohl(error);
}

static int answer_to_flush(const char* name, uint32_t offset_high, uint32_t length) {
  unsigned char message[FLUSH] = "UMEM\1\1";
  struct rdma_cm_id* id = connect_to(name);
  int error;
  offset_high = htonl(offset_high);
  length = htonl(length);
  memcpy(message + 8, &offset_high, 4);
  memcpy(message + 20, &length, 4);
  error = answer_to(id, message, FLUSH);
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  return error;
}

/* A message that is none ends the connection: the receive is flushed. */
static void expect_end(const char* name) {
  struct rdma_cm_id* id = connect_to(name);
  struct rdma_cm_event* event = NULL;
  char text[4] = "abc";
  struct ibv_mr* memory = rdma_reg_msgs(id, text, sizeof(text));
  struct rdma_event_channel* channel = id->channel;
  if (memory == NULL || rdma_post_send(id, NULL, text, 3, memory, 0) != 0) fail("send", strerror(errno));
  if (rdma_get_cm_event(channel, &event) != 0) fail("event", strerror(errno));
  expect("a message that is none", (int)event->event, RDMA_CM_EVENT_DISCONNECTED);
  rdma_ack_cm_event(event);
  rdma_dereg_mr(memory);
  rdma_destroy_ep(id);
}

static void crowd(const char* name) {
  unsigned char request[REQUEST];
  struct rlimit limit;
  int reason = 0;
  int count = 0;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  fill(request, name);
  while (count < CROWD_MAX && try_connect(request, REQUEST, &reason) != NULL) ++count;
  printf("%d granted, then refused: %d\n", count, reason);
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

int main(int count, char** arguments) {
  unsigned char request[REQUEST];
  if (count < 3) fail("usage", "mem_stranger ADDRESS NAME [NAME]");
  the_address = arguments[1];
  if (count == 3) {
    crowd(arguments[2]);
    return 0;
  }
  fill(request, arguments[2]);
  expect_refusal("no private data", NULL, 0, 1);
  request[0] = 'X';
  expect_refusal("another magic number", request, REQUEST, 1);
  fill(request, arguments[2]);
  request[4] = 9;
  expect_refusal("another version", request, REQUEST, 2);
  memset(request + NAME_AT, 'a', REQUEST - NAME_AT);
  request[4] = 1;
  expect_refusal("a name without an end", request, REQUEST, 1);
  fill(request, "none");
  expect_refusal("an unknown name", request, REQUEST, 3);
  expect("flush", answer_to_flush(arguments[2], 0, 100), 0);
  expect("flush behind the end", answer_to_flush(arguments[2], 1, 100), EINVAL);
  expect("flush of all and more", answer_to_flush(arguments[2], 0, 1U << 31), EINVAL);
  expect("flush of what is read only", answer_to_flush(arguments[3], 0, 100), EROFS);
  expect("flush of the directory", answer_to_flush("", 0, 0), EROFS);
  expect_end(arguments[2]);
  return 0;
}
