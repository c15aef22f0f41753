#pragma once

#include <infiniband/verbs.h>

// Verbs that other modules of the stack call: as the program would, but by the names that they have inside.
extern "C" {
ibv_context* uroce_ibv_open_device(ibv_device* device);
ibv_pd* uroce_ibv_alloc_pd(ibv_context* context);
ibv_comp_channel* uroce_ibv_create_comp_channel(ibv_context* context);
int uroce_ibv_destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* uroce_ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                            int vector);
int uroce_ibv_destroy_cq(ibv_cq* cq);
ibv_srq* uroce_ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted);
int uroce_ibv_destroy_srq(ibv_srq* srq);
ibv_qp* uroce_ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted);
int uroce_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int uroce_ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* initial);
int uroce_ibv_destroy_qp(ibv_qp* qp);
int uroce_ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
int uroce_ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
int uroce_ibv_set_ece(ibv_qp* qp, ibv_ece* ece);
}
