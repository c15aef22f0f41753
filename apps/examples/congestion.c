/* Congestion control: what decides how fast a queue pair sends can be read, and changed while it sends. */
#include "pair.h"

enum { BYTES = 1 << 20, MESSAGES = 16 };

static struct urocedv_qp_congestion now(struct pair* pair) {
  struct urocedv_qp_congestion congestion = {0};
  CHECK((errno = urocedv_query_qp_congestion(pair->near_qp, &congestion)) == 0);
  return congestion;
}

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);
  struct ibv_mr* mr = ibv_reg_mr(pair.pd, memory, BYTES, 0);
  CHECK(mr != NULL);
  struct ibv_sge all = {(uintptr_t)memory, BYTES, mr->lkey};

  CHECK((errno = urocedv_modify_qp_congestion(pair.near_qp, UROCEDV_CONGESTION_SWIFT)) == 0);
  CHECK(now(&pair).control == UROCEDV_CONGESTION_SWIFT);
  CHECK(now(&pair).window_packets == 1); /* until a round trip is known */
  for (int i = 0; i < MESSAGES; ++i) CHECK(pair_write(&pair, &all, 1) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, memory, BYTES) == 0);

  const struct urocedv_qp_congestion congestion = now(&pair);
  CHECK(congestion.window_packets >= 1 && congestion.window_packets <= 256);
  CHECK(congestion.round_trip_ns > 0 && congestion.least_round_trip_ns > 0);
  CHECK(congestion.cnps == 0);

  CHECK((errno = urocedv_modify_qp_congestion(pair.near_qp, UROCEDV_CONGESTION_NONE)) == 0);
  CHECK(now(&pair).window_packets == 256);
  CHECK(now(&pair).rate_kbps == 0);
  CHECK(pair_write(&pair, &all, 1) == IBV_WC_SUCCESS);

  puts("congestion control: swift measured round trips; none let the whole window go");
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  free(memory);
  pair_close(&pair);
  return 0;
}
