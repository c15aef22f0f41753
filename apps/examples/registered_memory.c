/* Memory that is registered from the start, in hugepages where there are any: no call registers or maps what
 * it is used for. Small pieces share a region, so that getting one costs no more than malloc does. */
#include "pair.h"

enum { PIECES = 1000, PIECE = 200, LARGE = 3 << 20 };

int main(void) {
  struct pair pair = pair_open(0);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

  /* Pieces of what was registered once: they have the same keys. */
  struct urocedv_memory* pieces[PIECES];
  for (int i = 0; i < PIECES; ++i) {
    pieces[i] = urocedv_alloc_memory(pair.pd, PIECE, UROCEDV_ANY_NODE, access, 0);
    CHECK(pieces[i] != NULL);
    memset(pieces[i]->addr, i, PIECE);
  }
  CHECK(pieces[0]->lkey == pieces[1]->lkey);
  struct ibv_sge from[2] = {{(uintptr_t)pieces[3]->addr, PIECE, pieces[3]->lkey},
                            {(uintptr_t)pieces[999]->addr, PIECE, pieces[999]->lkey}};
  CHECK(pair_write(&pair, from, 2) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, pieces[3]->addr, PIECE) == 0);
  CHECK(memcmp(pair.far_memory + PIECE, pieces[999]->addr, PIECE) == 0);
  for (int i = 0; i < PIECES; ++i) CHECK((errno = urocedv_free_memory(pieces[i])) == 0);

  /* One whose key a peer is given has a region of its own: the key is good for nothing else. It is also
   * mapped for the device, so that it has a bus address. */
  struct urocedv_memory* large =
      urocedv_alloc_memory(pair.pd, LARGE, UROCEDV_ANY_NODE, access, UROCEDV_MEMORY_OWN_REGION);
  CHECK(large != NULL);
  memset(large->addr, 0x5C, LARGE);
  CHECK(pair_far_read(&pair, (uintptr_t)large->addr, large->rkey, FAR_BYTES) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, large->addr, FAR_BYTES) == 0);
  struct ibv_mr* by_bus = urocedv_get_dma_mr(pair.pd, 0);
  CHECK(by_bus != NULL);
  memset(large->addr, 0x7D, LARGE);
  struct ibv_sge bus = {large->dma_address, FAR_BYTES, by_bus->lkey};
  CHECK(pair_write(&pair, &bus, 1) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, large->addr, FAR_BYTES) == 0);

  printf("registered memory: %d pieces of one region, and 3 MB of their own in pages of %zu KB\n", PIECES,
         large->page_size >> 10);
  CHECK((errno = ibv_dereg_mr(by_bus)) == 0);
  CHECK((errno = urocedv_free_memory(large)) == 0);
  pair_close(&pair);
  return 0;
}
