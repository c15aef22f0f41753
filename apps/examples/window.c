/* A memory window: a key of its own for a part of a region. The region itself gives peers nothing, so each of
 * them can be given just the bytes, the rights and the time that it needs, without a registration. One of
 * type 2 is bound by a work request and ended by another one, or by the peer; one of type 1 is bound by a
 * call, also anew while it is bound. */
#include "pair.h"

enum { BYTES = 100000, OPEN_FROM = 30000, OPEN_BYTES = 20000 };

/* The key that the window has from then on. Its low eight bits are the program's to choose: as ibv_inc_rkey
 * does, differently each time. */
static uint32_t bind_window(struct pair* pair, struct ibv_mw* window, const struct ibv_mw_bind_info* to) {
  struct ibv_send_wr request = {
      .opcode = IBV_WR_BIND_MW,
      .bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = *to},
  };
  struct ibv_send_wr* bad;
  CHECK((errno = ibv_post_send(pair->near_qp, &request, &bad)) == 0);
  const struct ibv_wc completion = pair_completion(pair);
  CHECK(completion.status == IBV_WC_SUCCESS && completion.opcode == IBV_WC_BIND_MW);
  window->rkey = request.bind_mw.rkey;
  return window->rkey;
}

static void invalidate(struct pair* pair, uint32_t key) {
  struct ibv_send_wr request = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key};
  struct ibv_send_wr* bad;
  CHECK((errno = ibv_post_send(pair->near_qp, &request, &bad)) == 0);
  CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);
}

/* To this part and then to that. */
static void of_type_1(struct pair* pair, struct ibv_mr* mr, const unsigned char* memory) {
  struct ibv_mw* window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
  CHECK(window != NULL);
  for (int part = 0; part < 3; ++part) {
    const unsigned char* begin = memory + part * 1000;
    struct ibv_mw_bind bind = {
        .bind_info = {
            .mr = mr, .addr = (uintptr_t)begin, .length = 1000, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
    CHECK((errno = ibv_bind_mw(pair->near_qp, window, &bind)) == 0);
    CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);
    CHECK(pair_far_read(pair, (uintptr_t)begin, window->rkey, 1000) == IBV_WC_SUCCESS);
    CHECK(memcmp(pair->far_memory, begin, 1000) == 0);
  }
  /* It may read what the window is bound to now, and not what it was bound to before. */
  CHECK(pair_far_read(pair, (uintptr_t)memory, window->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(pair);
  CHECK((errno = ibv_dealloc_mw(window)) == 0);
}

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);
  struct ibv_mr* mr = ibv_reg_mr(pair.pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  CHECK(mr != NULL);
  /* Of type 2A or 2B, as the device is configured; urocedv_alloc_mw makes any type. */
  struct ibv_mw* window = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
  CHECK(window != NULL);

  /* To the peer the bytes begin at 0. */
  const struct ibv_mw_bind_info part = {
      .mr = mr,
      .addr = (uintptr_t)memory + OPEN_FROM,
      .length = OPEN_BYTES,
      .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED,
  };
  const uint32_t key = bind_window(&pair, window, &part);
  CHECK(pair_far_read(&pair, 0, key, OPEN_BYTES) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, memory + OPEN_FROM, OPEN_BYTES) == 0);
  memset(pair.far_memory, 0x5C, OPEN_BYTES);
  CHECK(pair_far_write(&pair, 0, key, OPEN_BYTES) == IBV_WC_SUCCESS);
  CHECK(memcmp(memory + OPEN_FROM, pair.far_memory, OPEN_BYTES) == 0);

  /* What a window is bound over cannot end. */
  CHECK(ibv_dereg_mr(mr) == EBUSY);

  /* When the invalidation is complete not one byte moves under the key any more. */
  invalidate(&pair, key);
  CHECK(pair_far_write(&pair, 0, key, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(&pair);
  const uint32_t next_key = bind_window(&pair, window, &part);
  CHECK(next_key != key);
  CHECK(pair_far_read(&pair, OPEN_BYTES, next_key, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(&pair);

  CHECK((errno = ibv_dealloc_mw(window)) == 0);
  of_type_1(&pair, mr, memory);
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  puts(
      "memory window: a part of a region opened to the peer by a work request, and closed again by another; "
      "moved by a call");
  free(memory);
  pair_close(&pair);
  return 0;
}
