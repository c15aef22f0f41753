/* Fast registration: a region that a work request binds to pages, under a key that the program chooses, and
 * that a work request, a READ or the peer unbinds. What is before and behind in the send queue may rely on
 * it, so all of it can be posted at once. */
#include "pair.h"

enum { PAGE_SHIFT = 12, PAGE = 1 << PAGE_SHIFT, PAGES = 4, BYTES = PAGES * PAGE };

static struct urocedv_reg_mr_attr binding(struct ibv_mr* mr, struct urocedv_page_list* list) {
  return (struct urocedv_reg_mr_attr){
      .iova = 0,
      .key = mr->rkey,
      .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
      .page_list = list,
      .length = BYTES,
      .pages = PAGES,
      .page_shift = PAGE_SHIFT,
  };
}

/* Register, READ into the region, unbind: three requests, one call. */
static void at_once(struct pair* pair, struct ibv_mr* mr, struct urocedv_page_list* list) {
  struct ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair->near_qp);
  urocedv_update_key(mr, 0x11);
  const struct urocedv_reg_mr_attr attr = binding(mr, list);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  urocedv_wr_reg_mr(qp, mr, &attr);
  ibv_wr_rdma_read(qp, pair->far_mr->rkey, (uintptr_t)pair->far_memory);
  ibv_wr_set_sge(qp, mr->lkey, 0, BYTES);
  ibv_wr_local_inv(qp, mr->lkey);
  CHECK((errno = ibv_wr_complete(qp)) == 0);
  const int opcodes[] = {UROCEDV_WC_REG_MR, IBV_WC_RDMA_READ, IBV_WC_LOCAL_INV};
  for (int i = 0; i < 3; ++i) {
    const struct ibv_wc completion = pair_completion(pair);
    CHECK(completion.status == IBV_WC_SUCCESS && (int)completion.opcode == opcodes[i]);
  }
}

/* Bound for a peer that unbinds it with its answer. */
static void by_the_peer(struct pair* pair, struct ibv_mr* mr, struct urocedv_page_list* list) {
  struct ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair->near_qp);
  urocedv_update_key(mr, 0x12);
  const struct urocedv_reg_mr_attr attr = binding(mr, list);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  urocedv_wr_reg_mr(qp, mr, &attr);
  CHECK((errno = ibv_wr_complete(qp)) == 0);
  CHECK(pair_completion(pair).status == IBV_WC_SUCCESS);

  struct ibv_recv_wr receive = {0};
  struct ibv_recv_wr* bad_receive;
  CHECK((errno = ibv_post_recv(pair->near_qp, &receive, &bad_receive)) == 0);
  CHECK(pair_far_read(pair, 0, mr->rkey, BYTES) == IBV_WC_SUCCESS);
  struct ibv_send_wr answer = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = mr->rkey};
  struct ibv_send_wr* bad_answer;
  CHECK((errno = ibv_post_send(pair->far_qp, &answer, &bad_answer)) == 0);
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc completion = pair_completion(pair);
    CHECK(completion.status == IBV_WC_SUCCESS);
    if (completion.opcode == IBV_WC_RECV) {
      CHECK(completion.wc_flags & IBV_WC_WITH_INV && completion.invalidated_rkey == mr->rkey);
    }
  }
  CHECK(pair_far_read(pair, 0, mr->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(pair);
}

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 99);
  const uint64_t bus = urocedv_dma_map_single(pair.context, memory, BYTES, UROCEDV_DMA_BIDIRECTIONAL);
  CHECK(!urocedv_dma_mapping_error(pair.context, bus));
  struct ibv_mr* mr = urocedv_alloc_mr(pair.pd, UROCEDV_MR_TYPE_MEM_REG, PAGES);
  struct urocedv_page_list* list = urocedv_alloc_page_list(pair.context, PAGES);
  CHECK(mr != NULL && list != NULL);
  for (int i = 0; i < PAGES; ++i) list->pages[i] = bus + (uint64_t)i * PAGE;

  at_once(&pair, mr, list);
  CHECK(memcmp(memory, pair.far_memory, BYTES) == 0);
  by_the_peer(&pair, mr, list);
  CHECK((errno = urocedv_free_page_list(list)) == 0);
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  CHECK((errno = urocedv_dma_unmap_single(pair.context, bus, BYTES, UROCEDV_DMA_BIDIRECTIONAL)) == 0);
  puts("fast registration: bound, read into and unbound by one call; then unbound by the peer");
  free(memory);
  pair_close(&pair);
  return 0;
}
