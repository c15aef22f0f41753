/* An FMR: a region whose pages are exchanged again and again, cheaply, and a pool that keeps some of them. */
#include "pair.h"

enum { PAGE_SHIFT = 12, PAGE = 1 << PAGE_SHIFT, PAGES = 8, MAPPED = 3 };

static void by_hand(struct pair* pair, const unsigned char* memory, const uint64_t* pages) {
  const struct urocedv_fmr_attr attr = {.max_pages = MAPPED, .max_maps = 16, .page_shift = PAGE_SHIFT};
  struct urocedv_fmr* fmr = urocedv_alloc_fmr(pair->pd, IBV_ACCESS_REMOTE_READ, &attr);
  CHECK(fmr != NULL);
  for (int first = 0; first + MAPPED <= PAGES; ++first) {
    const uint32_t old_key = fmr->rkey;
    CHECK((errno = urocedv_map_phys_fmr(fmr, pages + first, MAPPED, 0)) == 0);
    CHECK(fmr->rkey != old_key);
    CHECK(pair_far_read(pair, 0, fmr->rkey, MAPPED * PAGE) == IBV_WC_SUCCESS);
    CHECK(memcmp(pair->far_memory, memory + first * PAGE, MAPPED * PAGE) == 0);
  }
  CHECK((errno = urocedv_unmap_fmr(&fmr, 1)) == 0);
  CHECK(pair_far_read(pair, 0, fmr->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(pair);
  CHECK((errno = urocedv_dealloc_fmr(fmr)) == 0);
}

static void by_pool(struct pair* pair, const unsigned char* memory, const uint64_t* pages) {
  const struct urocedv_fmr_pool_param param = {
      .access = IBV_ACCESS_REMOTE_READ,
      .fmr = {.max_pages = MAPPED, .page_shift = PAGE_SHIFT},
      .pool_size = 4,
      .dirty_watermark = 2,
      .cache = 1,
  };
  struct urocedv_fmr_pool* pool = urocedv_create_fmr_pool(pair->pd, &param);
  CHECK(pool != NULL);
  for (int i = 0; i < 10; ++i) {
    struct urocedv_pool_fmr* fmr = urocedv_fmr_pool_map_phys(pool, pages, MAPPED, 0);
    CHECK(fmr != NULL);
    CHECK(pair_far_read(pair, 0, fmr->rkey, MAPPED * PAGE) == IBV_WC_SUCCESS);
    CHECK(memcmp(pair->far_memory, memory, MAPPED * PAGE) == 0);
    CHECK((errno = urocedv_fmr_pool_unmap(fmr)) == 0);
  }
  struct urocedv_fmr_pool_stats stats = {0};
  CHECK((errno = urocedv_fmr_pool_query(pool, &stats)) == 0);
  CHECK(stats.misses == 1 && stats.hits == 9);
  CHECK((errno = urocedv_destroy_fmr_pool(pool)) == 0);
}

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(PAGES * PAGE, 1);
  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, PAGES * PAGE, UROCEDV_DMA_BIDIRECTIONAL);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));
  uint64_t pages[PAGES];
  for (int i = 0; i < PAGES; ++i) pages[i] = bus + (uint64_t)i * PAGE;

  by_hand(&pair, memory, pages);
  by_pool(&pair, memory, pages);
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, PAGES * PAGE, UROCEDV_DMA_BIDIRECTIONAL)) == 0);
  puts(
      "FMR: pages exchanged under changing keys; a pool found the same pages in its cache nine times of ten");
  free(memory);
  pair_close(&pair);
  return 0;
}
