// Shared receive queues of ids (rdma_create_srq(3)), those of XRC with the device's own domain among them.
#include <cerrno>

#include "rdmacm/completion_queues.h"
#include "rdmacm/entry_points.h"
#include "rdmacm/id.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/entry_points.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::rdmacm {
namespace {

bool given(const ibv_srq_init_attr_ex& wanted, uint32_t what) { return (wanted.comp_mask & what) != 0; }

int fill_in_xrc(Id& id, ibv_srq_init_attr_ex& wanted) {
  if (!given(wanted, IBV_SRQ_INIT_ATTR_XRCD)) {
    wanted.xrcd = id.device->default_xrc_domain();
    if (wanted.xrcd == nullptr) return errno;
    wanted.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
  }
  if (given(wanted, IBV_SRQ_INIT_ATTR_CQ)) return 0;
  if (const int error = make_receive_completions(id, wanted.attr.max_wr); error != 0) return error;
  wanted.cq = id.recv_cq;
  wanted.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
  return 0;
}

int create(Id& id, ibv_srq_init_attr_ex& wanted) {
  if (id.srq != nullptr || id.verbs == nullptr) return EINVAL;
  if (!given(wanted, IBV_SRQ_INIT_ATTR_PD)) {
    wanted.pd = id.pd;
    wanted.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  } else if (wanted.pd->context != id.verbs) {
    return EINVAL;
  }
  const bool xrc = given(wanted, IBV_SRQ_INIT_ATTR_TYPE) && wanted.srq_type == IBV_SRQT_XRC;
  if (xrc) {
    if (const int error = fill_in_xrc(id, wanted); error != 0) return error;
  }
  id.srq = verbs::create_srq_ex(id.verbs, &wanted);
  if (id.srq != nullptr) {
    id.pd = wanted.pd;
    return 0;
  }
  const int error = errno;
  if (id.qp == nullptr) end_completion_queues(id);
  return error;
}

}  // namespace
}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* wanted) {
  return returned(uroce::verbs::zero_or_errno([&] { return create(object(id), *wanted); }));
}

UROCE_EXPORT int uroce_rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* wanted) {
  const bool xrc = id->qp_type == IBV_QPT_XRC_SEND || id->qp_type == IBV_QPT_XRC_RECV;
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = wanted->srq_context;
  extended.attr = wanted->attr;
  extended.srq_type = xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = pd;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd != nullptr ? uint32_t{IBV_SRQ_INIT_ATTR_PD} : 0U);
  const int result = uroce_rdma_create_srq_ex(id, &extended);
  wanted->attr = extended.attr;
  return result;
}

UROCE_EXPORT void uroce_rdma_destroy_srq(rdma_cm_id* face) {
  Id& id = object(face);
  if (id.srq == nullptr) return;
  uroce_ibv_destroy_srq(id.srq);
  id.srq = nullptr;
  if (id.qp == nullptr) end_completion_queues(id);
}

}  // extern "C"
