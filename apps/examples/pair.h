/* What the examples have in common: two queue pairs of one device, connected with each other, so that a peer
 * is at hand. Nothing here is special to uroce but urocedv_create_qp. Any mistake ends the program with a
 * line that says where. */
#pragma once

#include <infiniband/urocedv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

struct pair {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* near_qp; /* the example's own */
  struct ibv_qp* far_qp;  /* its peer, with memory of its own: */
  struct ibv_mr* far_mr;
  unsigned char* far_memory;
};

enum { FAR_BYTES = 1 << 20 };

/* The device is the first; `create_flags` of enum urocedv_qp_create_flags are for the near queue pair. */
struct pair pair_open(uint32_t create_flags);
/* What the example made must be gone. */
void pair_close(struct pair* pair);

/* Posts the operation and waits for its completion, whose status is returned. The near queue pair acts on the
 * beginning of the far memory; the far one on the near's by address and key. */
enum ibv_wc_status pair_write(struct pair* pair, struct ibv_sge* from, int segments);
enum ibv_wc_status pair_read(struct pair* pair, struct ibv_sge* to, int segments);
enum ibv_wc_status pair_far_write(struct pair* pair, uint64_t to, uint32_t rkey, uint32_t bytes);
enum ibv_wc_status pair_far_read(struct pair* pair, uint64_t from, uint32_t rkey, uint32_t bytes);

/* The next completion of the pair. */
struct ibv_wc pair_completion(struct pair* pair);

/* Both queue pairs, after a completion with an error. */
void pair_connect(struct pair* pair);

/* Page-aligned memory, filled with a pattern that begins with `seed`. */
unsigned char* pattern(size_t bytes, unsigned char seed);
