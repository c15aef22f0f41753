/* A physical region: runs of bus addresses that look like one piece to users of its keys. */
#include "pair.h"

enum { BYTES = 50000, RUN = 3000, RUNS = 4 };

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);
  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, BYTES, UROCEDV_DMA_BIDIRECTIONAL);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));

  /* Every fourth run of the memory, the last one first. */
  struct urocedv_phys_buf runs[RUNS];
  for (int i = 0; i < RUNS; ++i)
    runs[i] = (struct urocedv_phys_buf){bus + (uint64_t)(RUNS - 1 - i) * 4 * RUN, RUN};
  const uint64_t iova = 0x7000;
  struct ibv_mr* mr =
      urocedv_reg_phys_mr(pair.pd, runs, RUNS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, iova);
  CHECK(mr != NULL);
  CHECK(pair_far_read(&pair, iova, mr->rkey, RUNS * RUN) == IBV_WC_SUCCESS);
  for (int i = 0; i < RUNS; ++i)
    CHECK(memcmp(pair.far_memory + i * RUN, memory + (size_t)(RUNS - 1 - i) * 4 * RUN, RUN) == 0);

  /* What a region covers cannot be unmapped. */
  CHECK(urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_BIDIRECTIONAL) == EBUSY);
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_BIDIRECTIONAL)) == 0);
  puts("physical region: scattered runs read as one piece; its memory cannot be unmapped while it lives");
  free(memory);
  pair_close(&pair);
  return 0;
}
