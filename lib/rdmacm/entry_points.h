#pragma once

#include <rdma/rdma_cma.h>

// Calls of rdma_cm that others of them are made of.
extern "C" {
int uroce_rdma_bind_addr(rdma_cm_id* id, sockaddr* address);
int uroce_rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms);
int uroce_rdma_resolve_route(rdma_cm_id* id, int timeout_ms);
int uroce_rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted);
void uroce_rdma_destroy_qp(rdma_cm_id* id);
void uroce_rdma_destroy_srq(rdma_cm_id* id);
int uroce_rdma_reject(rdma_cm_id* id, const void* data, uint8_t length);
int uroce_rdma_destroy_id(rdma_cm_id* id);
}
