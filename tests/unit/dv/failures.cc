#include "arguments.h"
#include "xrc_ends.h"

namespace uroce::verbs_test {

namespace {

const Row kFailures[] = {
    {"ibv_dealloc_pd in use", EBUSY, [](Objects& o) { return ibv_dealloc_pd(o.end.pd); }},
    {"ibv_destroy_cq in use", EBUSY, [](Objects& o) { return ibv_destroy_cq(o.end.cq); }},
    {"ibv_destroy_comp_channel in use", EBUSY,
     [](Objects& o) { return ibv_destroy_comp_channel(o.end.channel); }},
    {"ibv_resize_cq to nothing", EINVAL, [](Objects& o) { return ibv_resize_cq(o.end.cq, 0); }},
    {"ibv_modify_qp to RTS", EINVAL,
     [](Objects& o) {
       o.attributes.qp_state = IBV_QPS_RTS;
       return ibv_modify_qp(o.end.qp, &o.attributes, IBV_QP_STATE);
     }},
    {"ibv_modify_qp with an alternate path", EOPNOTSUPP,
     [](Objects& o) { return ibv_modify_qp(o.end.qp, &o.attributes, IBV_QP_ALT_PATH); }},
    {"ibv_modify_srq to nothing", EINVAL,
     [](Objects& o) { return ibv_modify_srq(o.srq, &o.srq_attributes, IBV_SRQ_MAX_WR); }},
    {"ibv_query_port that is not there", EINVAL,
     [](Objects& o) {
       ibv_port_attr attributes{};
       return ibv_query_port(o.context, 2, &attributes);
     }},
    {"ibv_attach_mcast of RC", EINVAL, [](Objects& o) { return ibv_attach_mcast(o.end.qp, &o.gid, 0); }},
    {"ibv_detach_mcast of RC", EINVAL, [](Objects& o) { return ibv_detach_mcast(o.end.qp, &o.gid, 0); }},
    {"ibv_modify_cq of nothing", EINVAL,
     [](Objects& o) {
       ibv_modify_cq_attr wanted{};
       return ibv_modify_cq(o.end.cq, &wanted);
     }},
    {"ibv_get_srq_num of a plain queue", EINVAL,
     [](Objects& o) {
       uint32_t number = 0;
       return ibv_get_srq_num(o.srq, &number);
     }},
    {"ibv_close_xrcd in use", EBUSY,
     [](Objects&) {
       const XrcServer server(device_at(0));
       ibv_qp* const target = create_xrc_target(server.context, server.xrcd);
       errno = 0;
       const int error = ibv_close_xrcd(server.xrcd);
       const int why = errno;
       EXPECT_EQ(ibv_destroy_qp(target), 0);
       errno = why;
       return error;
     }},
    {"ibv_query_ece, which is not there", EOPNOTSUPP,
     [](Objects& o) {
       ibv_ece ece{};
       return ibv_query_ece(o.end.qp, &ece);
     }},
    {"urocedv_dma_unmap_single of nothing", EINVAL,
     [](Objects& o) { return urocedv_dma_unmap_single(o.context, 0x10000, 1, UROCEDV_DMA_TO_DEVICE); }},
    {"urocedv_dma_sync_single_for_cpu of nothing", EINVAL,
     [](Objects& o) {
       return urocedv_dma_sync_single_for_cpu(o.context, 0x10000, 1, UROCEDV_DMA_TO_DEVICE);
     }},
};

}  // namespace

std::span<const Row> failures() { return kFailures; }

}  // namespace uroce::verbs_test
