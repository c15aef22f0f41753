/* A client of a memory server (`uroce mem serve`, apps/mem/README.md) in plain librdmacm and libibverbs:
 *
 *     memory_client ADDRESS NAME                 prints the region as it is
 *     memory_client ADDRESS NAME OFFSET TEXT     writes TEXT at OFFSET, and returns when it is in the file
 *
 * It does not look at the access that the server grants: a WRITE to a region that is exported for reading
 * ends with "remote access error". */
#define _DEFAULT_SOURCE
#include <endian.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, FLUSH = 1 };
static const char kPort[] = "18520";

/* All numbers are big-endian. */
struct request {
  char magic[4];
  uint8_t version, zero[3];
  char name[48];
};
struct grant {
  char magic[4];
  uint8_t version, access, zero[2];
  uint64_t address, length;
  uint32_t key, zero4;
};
struct flush {
  char magic[4];
  uint8_t version, kind, zero[2];
  uint64_t offset, length;
};
struct flushed {
  char magic[4];
  uint8_t version, kind, zero[2];
  uint32_t error, zero4;
};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "memory_client: %s: %s\n", what, why);
  exit(1);
}

static struct rdma_cm_id* connect_to(char* address, const char* name, struct grant* grant) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* server = NULL;
  struct ibv_qp_init_attr queues = {.cap = {2, 1, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_cm_id* id = NULL;
  struct request request = {.magic = "UMEM", .version = VERSION};
  struct rdma_conn_param param = {.private_data = &request,
                                  .private_data_len = sizeof(request),
                                  .initiator_depth = 1,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7};
  strncpy(request.name, name, sizeof(request.name) - 1);
  if (rdma_getaddrinfo(address, kPort, &hints, &server) != 0) fail(address, strerror(errno));
  if (rdma_create_ep(&id, server, NULL, &queues) != 0) fail(address, strerror(errno));
  rdma_freeaddrinfo(server);
  if (rdma_connect(id, &param) != 0) fail(name, strerror(errno));
  memcpy(grant, id->event->param.conn.private_data, sizeof(*grant));
  if (memcmp(grant->magic, "UMEM", 4) != 0 || grant->version != VERSION) fail(address, "no memory server");
  return id;
}

static void wait_for_send(struct rdma_cm_id* id, const char* what) {
  struct ibv_wc done;
  if (rdma_get_send_comp(id, &done) <= 0) fail(what, strerror(errno));
  if (done.status != IBV_WC_SUCCESS) fail(what, ibv_wc_status_str(done.status));
}

static void print(struct rdma_cm_id* id, uint64_t address, uint64_t length, uint32_t key) {
  char piece[65536];
  struct ibv_mr* memory = rdma_reg_msgs(id, piece, sizeof(piece));
  if (memory == NULL) fail("ibv_reg_mr", strerror(errno));
  for (uint64_t at = 0; at < length; at += sizeof(piece)) {
    const size_t bytes = length - at < sizeof(piece) ? length - at : sizeof(piece);
    if (rdma_post_read(id, NULL, piece, bytes, memory, 0, address + at, key) != 0)
      fail("READ", strerror(errno));
    wait_for_send(id, "READ");
    fwrite(piece, 1, bytes, stdout);
  }
  rdma_dereg_mr(memory);
}

static void write_text(struct rdma_cm_id* id, uint64_t address, uint32_t key, uint64_t offset, char* text) {
  const size_t bytes = strlen(text);
  struct {
    struct flush flush;
    struct flushed flushed;
  } messages = {.flush = {.magic = "UMEM",
                          .version = VERSION,
                          .kind = FLUSH,
                          .offset = htobe64(offset),
                          .length = htobe64(bytes)}};
  struct ibv_wc done;
  struct ibv_mr* source = rdma_reg_msgs(id, text, bytes);
  struct ibv_mr* memory = rdma_reg_msgs(id, &messages, sizeof(messages));
  if (source == NULL || memory == NULL) fail("ibv_reg_mr", strerror(errno));
  if (rdma_post_write(id, NULL, text, bytes, source, 0, address + offset, key) != 0)
    fail("WRITE", strerror(errno));
  wait_for_send(id, "WRITE");
  if (rdma_post_recv(id, NULL, &messages.flushed, sizeof(messages.flushed), memory) != 0 ||
      rdma_post_send(id, NULL, &messages.flush, sizeof(messages.flush), memory, 0) != 0)
    fail("flush", strerror(errno));
  wait_for_send(id, "flush");
  if (rdma_get_recv_comp(id, &done) <= 0 || done.status != IBV_WC_SUCCESS) fail("flush", "no answer");
  if (messages.flushed.error != 0) fail("flush", strerror((int)be32toh(messages.flushed.error)));
  rdma_dereg_mr(source);
  rdma_dereg_mr(memory);
}

int main(int count, char** arguments) {
  struct grant grant;
  struct rdma_cm_id* id;
  if (count != 3 && count != 5) fail("usage", "memory_client ADDRESS NAME [OFFSET TEXT]");
  id = connect_to(arguments[1], arguments[2], &grant);
  if (count == 3) {
    print(id, be64toh(grant.address), be64toh(grant.length), be32toh(grant.key));
  } else {
    write_text(id, be64toh(grant.address), be32toh(grant.key), strtoull(arguments[3], NULL, 0), arguments[4]);
  }
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  return 0;
}
