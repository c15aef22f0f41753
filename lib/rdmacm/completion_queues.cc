#include "rdmacm/completion_queues.h"

#include <algorithm>
#include <cerrno>

#include "verbs/calls/entry_points.h"

namespace uroce::rdmacm {
namespace {

int make(Id& id, uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& queue) {
  channel = uroce_ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return errno;
  queue = uroce_ibv_create_cq(id.verbs, static_cast<int>(std::max(entries, 1U)), &id, channel, 0);
  if (queue != nullptr) return 0;
  const int error = errno;
  uroce_ibv_destroy_comp_channel(channel);
  channel = nullptr;
  return error;
}

void end(ibv_comp_channel*& channel, ibv_cq*& queue) {
  uroce_ibv_destroy_cq(queue);
  uroce_ibv_destroy_comp_channel(channel);
  queue = nullptr;
  channel = nullptr;
}

}  // namespace

int make_receive_completions(Id& id, uint32_t entries) {
  if (id.recv_cq != nullptr) return 0;
  const int error = make(id, entries, id.recv_cq_channel, id.recv_cq);
  id.owns_receive_cq = error == 0;
  return error;
}

int make_completion_queues(Id& id, ibv_qp_init_attr_ex& wanted) {
  const bool sends = wanted.qp_type != IBV_QPT_XRC_RECV;
  const bool receives = sends && wanted.qp_type != IBV_QPT_XRC_SEND;
  if (receives && wanted.recv_cq == nullptr) {
    if (const int error = make_receive_completions(id, wanted.cap.max_recv_wr); error != 0) return error;
    wanted.recv_cq = id.recv_cq;
  }
  if (!sends || wanted.send_cq != nullptr) return 0;
  if (id.send_cq == nullptr) {
    const int error = make(id, wanted.cap.max_send_wr, id.send_cq_channel, id.send_cq);
    if (error != 0) return error;
    id.owns_send_cq = true;
  }
  wanted.send_cq = id.send_cq;
  return 0;
}

void end_completion_queues(Id& id) {
  if (id.owns_send_cq) end(id.send_cq_channel, id.send_cq);
  // A shared receive queue of the id's still reports there.
  if (id.owns_receive_cq && id.srq == nullptr) {
    end(id.recv_cq_channel, id.recv_cq);
    id.owns_receive_cq = false;
  }
  id.owns_send_cq = false;
}

}  // namespace uroce::rdmacm
