/* A DMA region: one key for all memory that is mapped for the device, by bus address. Drivers in kernels work
 * like this: map a buffer, post it, unmap it when the completion is there. */
#include "pair.h"

enum { BYTES = 60000 };

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);
  struct ibv_mr* mr = urocedv_get_dma_mr(pair.pd, IBV_ACCESS_LOCAL_WRITE);
  CHECK(mr != NULL);

  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, BYTES, UROCEDV_DMA_TO_DEVICE);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));
  struct ibv_sge from = {bus, BYTES, mr->lkey};
  CHECK(pair_write(&pair, &from, 1) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, memory, BYTES) == 0);
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_TO_DEVICE)) == 0);

  /* Unmapped, the address is nothing; and the address of the process never was anything. */
  CHECK(pair_write(&pair, &from, 1) == IBV_WC_LOC_PROT_ERR);
  pair_connect(&pair);
  from.addr = (uintptr_t)memory;
  CHECK(pair_write(&pair, &from, 1) == IBV_WC_LOC_PROT_ERR);
  pair_connect(&pair);

  /* A list of pieces, mapped together. */
  struct urocedv_sg list[3] = {{.address = memory, .length = 100},
                               {.address = memory + 20000, .length = 30000},
                               {.address = memory + 5000, .length = 7}};
  CHECK(urocedv_dma_map_sg(pair.context, list, 3, UROCEDV_DMA_FROM_DEVICE) == 3);
  struct ibv_sge to[3];
  for (int i = 0; i < 3; ++i)
    to[i] = (struct ibv_sge){urocedv_sg_dma_address(&list[i]), urocedv_sg_dma_len(&list[i]), mr->lkey};
  CHECK(pair_read(&pair, to, 3) == IBV_WC_SUCCESS);
  CHECK((errno = urocedv_dma_unmap_sg(pair.context, list, 3, UROCEDV_DMA_FROM_DEVICE)) == 0);
  CHECK(memcmp(memory, pair.far_memory, 100) == 0 &&
        memcmp(memory + 20000, pair.far_memory + 100, 30000) == 0 &&
        memcmp(memory + 5000, pair.far_memory + 30100, 7) == 0);

  puts("DMA region: written and read by bus addresses; unmapped ones, and the process's own, are refused");
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  free(memory);
  pair_close(&pair);
  return 0;
}
