// Keys of each kind that pollers bind: says what they are, and on each line of its input, "KEY ADDRESS", has
// a peer read a byte by one. At the end of its input it ends what it has made.
#include <inttypes.h>

#include "apps/examples/pair.h"

enum { PAGE_SHIFT = 12, PAGE = 1 << PAGE_SHIFT, BYTES = 4 * PAGE };

static void posted(struct pair* pair, struct ibv_send_wr* request) {
  struct ibv_send_wr* bad;
  CHECK((errno = ibv_post_send(pair->near_qp, request, &bad)) == 0);
  CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);
}

static struct ibv_mw* window_of_type_1(struct pair* pair, struct ibv_mr* mr) {
  struct ibv_mw* window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
  CHECK(window != NULL);
  struct ibv_mw_bind bind = {
      .bind_info = {
          .mr = mr, .addr = (uintptr_t)mr->addr, .length = PAGE, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
  CHECK((errno = ibv_bind_mw(pair->near_qp, window, &bind)) == 0);
  CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);
  printf("window1 %" PRIu32 " %" PRIuPTR "\n", window->rkey, (uintptr_t)mr->addr);
  return window;
}

static struct ibv_mw* window_of_type_2(struct pair* pair, struct ibv_mr* mr) {
  struct ibv_mw* window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
  CHECK(window != NULL);
  struct ibv_send_wr request = {.opcode = IBV_WR_BIND_MW,
                                .bind_mw = {.mw = window,
                                            .rkey = ibv_inc_rkey(window->rkey),
                                            .bind_info = {.mr = mr,
                                                          .addr = (uintptr_t)mr->addr,
                                                          .length = PAGE,
                                                          .mw_access_flags = IBV_ACCESS_REMOTE_READ}}};
  posted(pair, &request);
  window->rkey = request.bind_mw.rkey;
  printf("window2 %" PRIu32 " %" PRIuPTR "\n", window->rkey, (uintptr_t)mr->addr);
  return window;
}

static void bind_fast_region(struct pair* pair, struct ibv_mr* mr, struct urocedv_page_list* list) {
  const struct urocedv_reg_mr_attr binding = {.key = mr->rkey,
                                              .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                                              .page_list = list,
                                              .length = BYTES,
                                              .pages = BYTES / PAGE,
                                              .page_shift = PAGE_SHIFT};
  struct ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair->near_qp);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  urocedv_wr_reg_mr(qp, mr, &binding);
  CHECK((errno = ibv_wr_complete(qp)) == 0);
  CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);
}

static void read_by_keys(struct pair* pair) {
  uint32_t key = 0;
  uint64_t address = 0;
  while (scanf("%" SCNu32 " %" SCNu64, &key, &address) == 2) {
    const enum ibv_wc_status status = pair_far_read(pair, address, key, 1);
    puts(ibv_wc_status_str(status));
    if (status != IBV_WC_SUCCESS) pair_connect(pair);
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);
  struct ibv_mr* region = ibv_reg_mr(pair.pd, memory, BYTES,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
  CHECK(region != NULL);
  printf("region %" PRIu32 " %" PRIuPTR "\n", region->rkey, (uintptr_t)memory);
  struct ibv_mw* windows[] = {window_of_type_1(&pair, region), window_of_type_2(&pair, region)};
  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, BYTES, UROCEDV_DMA_BIDIRECTIONAL);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));
  struct ibv_mr* fast = urocedv_alloc_mr(pair.pd, UROCEDV_MR_TYPE_MEM_REG, BYTES / PAGE);
  struct urocedv_page_list* list = urocedv_alloc_page_list(pair.context, BYTES / PAGE);
  CHECK(fast != NULL && list != NULL);
  for (int i = 0; i < BYTES / PAGE; ++i) list->pages[i] = bus + (uint64_t)i * PAGE;
  urocedv_update_key(fast, 0x11);
  bind_fast_region(&pair, fast, list);
  printf("fast %" PRIu32 " 0\n", fast->rkey);
  puts("ready");
  read_by_keys(&pair);
  // What was taken away can be bound anew, and ended.
  urocedv_update_key(fast, 0x12);
  bind_fast_region(&pair, fast, list);
  CHECK(pair_far_read(&pair, 0, fast->rkey, 1) == IBV_WC_SUCCESS);
  CHECK((errno = ibv_dereg_mr(fast)) == 0);
  CHECK((errno = urocedv_free_page_list(list)) == 0);
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_BIDIRECTIONAL)) == 0);
  for (int i = 0; i < 2; ++i) CHECK((errno = ibv_dealloc_mw(windows[i])) == 0);
  CHECK((errno = ibv_dereg_mr(region)) == 0);
  puts("ended");
  free(memory);
  pair_close(&pair);
  return 0;
}
