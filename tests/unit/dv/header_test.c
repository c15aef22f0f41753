/* The header is C as well. */
#include <infiniband/urocedv.h>

int urocedv_header_works_in_c(struct ibv_context* context);

int urocedv_header_works_in_c(struct ibv_context* context) {
  const struct urocedv_sg sg = {.dma_length = 7, .dma_address = UROCEDV_DMA_ERROR};
  return urocedv_is_supported(context->device) && urocedv_sg_dma_len(&sg) == 7 &&
         urocedv_dma_mapping_error(context, urocedv_sg_dma_address(&sg)) != 0;
}
