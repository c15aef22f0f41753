/* The reserved L_Key: like the key of a DMA region, but nothing needs to be made for it, and it is the same
 * in every protection domain. Only queue pairs that were created for it may use it, and only for their own
 * memory. */
#include "pair.h"

enum { BYTES = 8000 };

int main(void) {
  struct pair pair = pair_open(UROCEDV_QP_CREATE_RESERVED_LKEY);
  unsigned char* memory = pattern(BYTES, 1);
  struct urocedv_device_attr device = {0};
  CHECK((errno = urocedv_query_device(pair.context, &device)) == 0);

  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, BYTES, UROCEDV_DMA_BIDIRECTIONAL);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));
  struct ibv_sge all = {bus, BYTES, device.reserved_lkey};
  CHECK(pair_write(&pair, &all, 1) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, memory, BYTES) == 0);

  /* To a peer it is no key. */
  CHECK(pair_far_read(&pair, bus, device.reserved_lkey, 1) == IBV_WC_REM_ACCESS_ERR);

  puts("reserved L_Key: written by it without any region; refused as an R_Key");
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_BIDIRECTIONAL)) == 0);
  free(memory);
  pair_close(&pair);
  return 0;
}
