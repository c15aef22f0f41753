// Decision: rdma_accept resolves no Ethernet address. Queue pair and REP use the known neighbour, else the
// sender of the REQ, so strangers make no server wait.
#include "rdmacm/queue_pair.h"

#include <algorithm>
#include <cerrno>

#include "mem/rights/access.h"
#include "rdmacm/completion_queues.h"
#include "rdmacm/multicast.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/entry_points.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/control/modify_qp.h"

namespace uroce::rdmacm {
namespace {

void describe_init(const Id& id, ibv_qp_attr& attributes, int& mask) {
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  attributes.pkey_index = 0;
  attributes.port_num = 1;
  if (id.is_datagram()) {
    attributes.qkey = id.datagram_qkey;
    mask |= IBV_QP_QKEY;
    return;
  }
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.responder_resources != 0)
    attributes.qp_access_flags |=
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | mem::kFlushGlobal.bits();
  mask |= IBV_QP_ACCESS_FLAGS;
}

bool answers_reads(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV; }
bool waits_for_answers(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND; }

void describe_rtr(const Id& id, ibv_qp_attr& attributes, int& mask) {
  mask = IBV_QP_STATE;
  if (id.is_datagram()) return;
  attributes.ah_attr = address_vector(id, id.way);
  attributes.path_mtu = static_cast<ibv_mtu>(id.peer.mtu);
  attributes.dest_qp_num = id.peer.qp.value;
  attributes.rq_psn = id.psn.value();
  mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (!answers_reads(id.qp_type)) return;
  attributes.max_dest_rd_atomic = id.responder_resources;
  attributes.min_rnr_timer = 0;
  mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void describe_rts(const Id& id, ibv_qp_attr& attributes, int& mask) {
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  attributes.sq_psn = id.peer.psn.value();
  if (id.qp_type == IBV_QPT_XRC_RECV) {
    attributes.timeout = id.ack_timeout.value_or(id.peer.ack_timeout);
    mask |= IBV_QP_TIMEOUT;
  }
  if (!waits_for_answers(id.qp_type)) return;
  attributes.timeout = id.ack_timeout.value_or(id.peer.ack_timeout);
  attributes.retry_cnt = id.retry_count;
  attributes.rnr_retry = id.peer.rnr_retry_count;
  attributes.max_rd_atomic = id.initiator_depth;
  mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

int modify(Id& id, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (const int error = describe_transition(id, attributes, mask); error != 0) return error;
  // A peer whose REQ or REP came is reached where it came from: accepting it waits for no resolution.
  return verbs::zero_or_errno(
      [&] { return verbs::modify_qp(verbs::object(id.qp), attributes, mask, id.way.link); });
}

/// A queue pair of datagrams needs no peer.
int prepare(Id& id) {
  if (const int error = modify(id, IBV_QPS_INIT); error != 0 || !id.is_datagram()) return error;
  if (const int error = modify(id, IBV_QPS_RTR); error != 0) return error;
  return modify(id, IBV_QPS_RTS);
}

int create(Id& id, ibv_qp_init_attr_ex& wanted) {
  if (id.qp != nullptr || id.verbs == nullptr) return EINVAL;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_PD;
    wanted.pd = id.pd;
  } else if (wanted.pd->context != id.verbs) {
    return EINVAL;
  }
  if (wanted.qp_type == IBV_QPT_XRC_RECV && (wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) {
    wanted.xrcd = id.device->default_xrc_domain();
    if (wanted.xrcd == nullptr) return errno;
    wanted.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  }
  if (id.srq != nullptr && wanted.srq == nullptr) wanted.srq = id.srq;
  if (const int error = make_completion_queues(id, wanted); error != 0) return error;
  ibv_qp* const qp = verbs::create_qp_ex(id.verbs, &wanted, {});
  int error = qp != nullptr ? 0 : errno;
  if (qp != nullptr) {
    id.qp = qp;
    id.qp_type = qp->qp_type;
    error = prepare(id);
    if (error == 0) {
      id.pd = wanted.pd;
      id.send_cq = wanted.send_cq;
      id.recv_cq = wanted.recv_cq;
      return 0;
    }
    id.qp = nullptr;
    uroce_ibv_destroy_qp(qp);
  }
  end_completion_queues(id);
  return error;
}

}  // namespace

int describe_transition(const Id& id, ibv_qp_attr& attributes, int& mask) {
  if (id.device == nullptr) return EINVAL;
  const bool peer_known = id.is_datagram() || id.peer.qp != QpNumber{};
  switch (attributes.qp_state) {
    case IBV_QPS_INIT:
      describe_init(id, attributes, mask);
      return 0;
    case IBV_QPS_RTR:
      if (!peer_known) return EINVAL;
      describe_rtr(id, attributes, mask);
      return 0;
    case IBV_QPS_RTS:
      if (!peer_known) return EINVAL;
      describe_rts(id, attributes, mask);
      return 0;
    default:
      return EINVAL;
  }
}

int make_ready(Id& id) {
  // INIT again: what the peer may do here is known only now.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const int error = modify(id, state); error != 0) return error;
  }
  return 0;
}

void break_off(Id& id) {
  if (id.qp == nullptr || id.is_datagram()) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  uroce_ibv_modify_qp(id.qp, &attributes, IBV_QP_STATE);
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* wanted) {
  return returned(uroce::verbs::zero_or_errno([&] { return create(object(id), *wanted); }));
}

UROCE_EXPORT int uroce_rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  return returned(uroce::verbs::zero_or_errno([&] {
    ibv_qp_init_attr_ex extended{};
    extended.qp_context = wanted->qp_context;
    extended.send_cq = wanted->send_cq;
    extended.recv_cq = wanted->recv_cq;
    extended.srq = wanted->srq;
    extended.cap = wanted->cap;
    extended.qp_type = wanted->qp_type;
    extended.sq_sig_all = wanted->sq_sig_all;
    extended.pd = pd;
    extended.comp_mask = pd != nullptr ? uint32_t{IBV_QP_INIT_ATTR_PD} : 0U;
    const int error = create(object(id), extended);
    wanted->cap = extended.cap;
    return error;
  }));
}

UROCE_EXPORT void uroce_rdma_destroy_qp(rdma_cm_id* face) {
  Id& id = object(face);
  if (id.qp == nullptr) return;
  leave_groups_of_queue_pair(id);
  uroce_ibv_destroy_qp(id.qp);
  id.qp = nullptr;
  end_completion_queues(id);
}

UROCE_EXPORT int uroce_rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return returned(describe_transition(object(id), *attributes, *mask));
}

}  // extern "C"
