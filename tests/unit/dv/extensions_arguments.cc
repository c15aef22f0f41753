#include "arguments.h"

namespace uroce::verbs_test {

namespace {

const Row kExtensions[] = {
    {"urocedv_is_supported", 0, [](Objects&) { return urocedv_is_supported(nullptr) ? EINVAL : 0; }},
    {"urocedv_query_device context", EINVAL,
     [](Objects&) {
       urocedv_device_attr attributes{};
       return urocedv_query_device(nullptr, &attributes);
     }},
    {"urocedv_query_dma context", EINVAL,
     [](Objects&) {
       urocedv_dma_attr attributes{.comp_mask = 0, .length = 1};
       return urocedv_query_dma(nullptr, &attributes);
     }},
    {"urocedv_query_dma attributes", EINVAL,
     [](Objects& o) { return urocedv_query_dma(o.context, nullptr); }},
    {"urocedv_query_device attributes", EINVAL,
     [](Objects& o) { return urocedv_query_device(o.context, nullptr); }},
    {"urocedv_create_qp context", EINVAL,
     [](Objects&) {
       ibv_qp_init_attr_ex wanted{};
       return told(urocedv_create_qp(nullptr, &wanted, nullptr));
     }},
    {"urocedv_create_qp attributes", EINVAL,
     [](Objects& o) { return told(urocedv_create_qp(o.context, nullptr, nullptr)); }},
    {"urocedv_dma_map_single context", EINVAL,
     [](Objects& o) {
       const uint64_t made = urocedv_dma_map_single(nullptr, &o, 1, UROCEDV_DMA_TO_DEVICE);
       return made == UROCEDV_DMA_ERROR ? errno : 0;
     }},
    {"urocedv_dma_map_single direction", EINVAL,
     [](Objects& o) {
       const uint64_t made = urocedv_dma_map_single(o.context, &o, 1, none_of<urocedv_dma_direction>());
       return made == UROCEDV_DMA_ERROR ? errno : 0;
     }},
    {"urocedv_dma_map_page context", EINVAL,
     [](Objects& o) {
       const uint64_t made = urocedv_dma_map_page(nullptr, &o, 0, 1, UROCEDV_DMA_TO_DEVICE);
       return made == UROCEDV_DMA_ERROR ? errno : 0;
     }},
    {"urocedv_dma_map_sg context", EINVAL,
     [](Objects& o) {
       o.sg = {.address = &o, .length = 1, .dma_length = 0, .dma_address = 0};
       return urocedv_dma_map_sg(nullptr, &o.sg, 1, UROCEDV_DMA_TO_DEVICE) == 0 ? errno : 0;
     }},
    {"urocedv_dma_map_sg list", EINVAL,
     [](Objects& o) {
       return urocedv_dma_map_sg(o.context, nullptr, 1, UROCEDV_DMA_TO_DEVICE) == 0 ? errno : 0;
     }},
    {"urocedv_dma_unmap_single context", EINVAL,
     [](Objects&) { return urocedv_dma_unmap_single(nullptr, 0, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_unmap_single direction", EINVAL,
     [](Objects& o) { return urocedv_dma_unmap_single(o.context, 0, 1, none_of<urocedv_dma_direction>()); }},
    {"urocedv_dma_unmap_page context", EINVAL,
     [](Objects&) { return urocedv_dma_unmap_page(nullptr, 0, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_unmap_sg context", EINVAL,
     [](Objects& o) { return urocedv_dma_unmap_sg(nullptr, &o.sg, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_unmap_sg list", EINVAL,
     [](Objects& o) { return urocedv_dma_unmap_sg(o.context, nullptr, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_sync_single_for_cpu context", EINVAL,
     [](Objects&) { return urocedv_dma_sync_single_for_cpu(nullptr, 0, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_sync_single_for_device direction", EINVAL,
     [](Objects& o) {
       return urocedv_dma_sync_single_for_device(o.context, 0, 1, none_of<urocedv_dma_direction>());
     }},
    {"urocedv_get_dma_mr", EINVAL, [](Objects&) { return told(urocedv_get_dma_mr(nullptr, 0)); }},
    {"urocedv_reg_phys_mr domain", EINVAL,
     [](Objects&) {
       const urocedv_phys_buf run{.dma_address = 0, .length = 1};
       return told(urocedv_reg_phys_mr(nullptr, &run, 1, 0, 0));
     }},
    {"urocedv_reg_phys_mr runs", EINVAL,
     [](Objects& o) { return told(urocedv_reg_phys_mr(o.end.pd, nullptr, 1, 0, 0)); }},
    {"urocedv_alloc_mr domain", EINVAL,
     [](Objects&) { return told(urocedv_alloc_mr(nullptr, UROCEDV_MR_TYPE_MEM_REG, 1)); }},
    {"urocedv_alloc_mr type", EINVAL,
     [](Objects& o) { return told(urocedv_alloc_mr(o.end.pd, none_of<urocedv_mr_type>(), 1)); }},
    {"urocedv_alloc_page_list", EINVAL, [](Objects&) { return told(urocedv_alloc_page_list(nullptr, 1)); }},
    {"urocedv_free_page_list", EINVAL, [](Objects&) { return urocedv_free_page_list(nullptr); }},
    {"urocedv_map_mr_sg region", EINVAL,
     [](Objects& o) { return urocedv_map_mr_sg(nullptr, &o.sg, 1, nullptr, 4096) == 0 ? errno : 0; }},
    {"urocedv_map_mr_sg list", EINVAL,
     [](Objects& o) { return urocedv_map_mr_sg(o.end.mr, nullptr, 1, nullptr, 4096) == 0 ? errno : 0; }},
    {"urocedv_wr_reg_mr queue pair", EINVAL,
     [](Objects& o) { return urocedv_wr_reg_mr(nullptr, o.end.mr, nullptr), told_nothing(); }},
    {"urocedv_wr_reg_mr region and attributes", EINVAL,
     [](Objects& o) {
       ibv_qp_ex* const qp = ibv_qp_to_qp_ex(o.end.qp);
       ibv_wr_start(qp);
       urocedv_wr_reg_mr(qp, nullptr, nullptr);
       return errno = ibv_wr_complete(qp);
     }},
    {"urocedv_wr_rdma_read_inv", EINVAL,
     [](Objects&) { return urocedv_wr_rdma_read_inv(nullptr, 0, 0, 0), told_nothing(); }},
    {"urocedv_wr_flush", EINVAL,
     [](Objects&) {
       urocedv_wr_flush(nullptr, 0, 0, 0, UROCEDV_FLUSH_GLOBAL, UROCEDV_FLUSH_MR);
       return told_nothing();
     }},
    {"urocedv_alloc_fmr domain", EINVAL,
     [](Objects&) {
       const urocedv_fmr_attr attributes{.max_pages = 1, .max_maps = 1, .page_shift = 12};
       return told(urocedv_alloc_fmr(nullptr, 0, &attributes));
     }},
    {"urocedv_alloc_fmr attributes", EINVAL,
     [](Objects& o) { return told(urocedv_alloc_fmr(o.end.pd, 0, nullptr)); }},
    {"urocedv_map_phys_fmr", EINVAL, [](Objects& o) { return urocedv_map_phys_fmr(nullptr, &o.page, 1, 0); }},
    {"urocedv_unmap_fmr list", EINVAL, [](Objects&) { return urocedv_unmap_fmr(nullptr, 1); }},
    {"urocedv_unmap_fmr entry", EINVAL,
     [](Objects&) {
       urocedv_fmr* none = nullptr;
       return urocedv_unmap_fmr(&none, 1);
     }},
    {"urocedv_dealloc_fmr", EINVAL, [](Objects&) { return urocedv_dealloc_fmr(nullptr); }},
    {"urocedv_create_fmr_pool domain", EINVAL,
     [](Objects&) {
       const urocedv_fmr_pool_param wanted{};
       return told(urocedv_create_fmr_pool(nullptr, &wanted));
     }},
    {"urocedv_create_fmr_pool wanted", EINVAL,
     [](Objects& o) { return told(urocedv_create_fmr_pool(o.end.pd, nullptr)); }},
    {"urocedv_destroy_fmr_pool", EINVAL, [](Objects&) { return urocedv_destroy_fmr_pool(nullptr); }},
    {"urocedv_fmr_pool_map_phys", EINVAL,
     [](Objects& o) { return told(urocedv_fmr_pool_map_phys(nullptr, &o.page, 1, 0)); }},
    {"urocedv_fmr_pool_unmap", EINVAL, [](Objects&) { return urocedv_fmr_pool_unmap(nullptr); }},
    {"urocedv_fmr_pool_flush", EINVAL, [](Objects&) { return urocedv_fmr_pool_flush(nullptr); }},
    {"urocedv_fmr_pool_query pool", EINVAL,
     [](Objects&) {
       urocedv_fmr_pool_stats stats{};
       return urocedv_fmr_pool_query(nullptr, &stats);
     }},
    {"urocedv_fmr_pool_query stats", EINVAL,
     [](Objects& o) {
       urocedv_fmr_pool_param wanted{};
       wanted.fmr = {.max_pages = 1, .max_maps = 0, .page_shift = 12};
       wanted.pool_size = wanted.dirty_watermark = 1;
       urocedv_fmr_pool* const pool = urocedv_create_fmr_pool(o.end.pd, &wanted);
       const int error = urocedv_fmr_pool_query(pool, nullptr);
       EXPECT_EQ(urocedv_destroy_fmr_pool(pool), 0);
       return error;
     }},
    {"urocedv_alloc_mw domain", EINVAL,
     [](Objects&) { return told(urocedv_alloc_mw(nullptr, UROCEDV_MW_TYPE_1)); }},
    {"urocedv_alloc_mw type", EINVAL,
     [](Objects& o) { return told(urocedv_alloc_mw(o.end.pd, none_of<urocedv_mw_type>())); }},
    {"urocedv_alloc_memory", EINVAL,
     [](Objects&) { return told(urocedv_alloc_memory(nullptr, 1, UROCEDV_ANY_NODE, 0, 0)); }},
    {"urocedv_query_qp_congestion qp", EINVAL,
     [](Objects&) {
       urocedv_qp_congestion congestion{};
       return urocedv_query_qp_congestion(nullptr, &congestion);
     }},
    {"urocedv_query_qp_congestion congestion", EINVAL,
     [](Objects& o) { return urocedv_query_qp_congestion(o.end.qp, nullptr); }},
    {"urocedv_modify_qp_congestion qp", EINVAL,
     [](Objects&) { return urocedv_modify_qp_congestion(nullptr, UROCEDV_CONGESTION_NONE); }},
    {"urocedv_modify_qp_congestion control", EINVAL,
     [](Objects& o) {
       return urocedv_modify_qp_congestion(o.end.qp, none_of<urocedv_congestion_control>());
     }},
    {"urocedv_congestion_name", EINVAL,
     [](Objects&) { return told(urocedv_congestion_name(none_of<urocedv_congestion_control>())); }},
    {"urocedv_free_memory", EINVAL, [](Objects&) { return urocedv_free_memory(nullptr); }},
};

}  // namespace

std::span<const Row> extensions_arguments() { return kExtensions; }

}  // namespace uroce::verbs_test
