#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qp/requester/local_operation.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_request.h"
#include "verbs/calls/objects.h"

// How the work requests of an application become those of a queue.

namespace uroce::verbs {

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad);
/// Does what post_send would with one request to bind a window of type 1, which post_send itself refuses.
int post_bind(ibv_qp* qp, const ibv_send_wr& request);

/// Writes a request down that has IBV_WR_DRIVER1, as post_send does; 0 or errno.
int enqueue_driver(VerbsQp& qp, const ibv_send_wr& from);

// Describing a request between ibv_wr_start and ibv_wr_complete. begin() is null when the list has gone
// wrong; the first mistake of a list counts.
queue::SendRequest* begin(ibv_qp_ex* qp, queue::SendOperation operation);
void refuse(ExtendedQp& qp, int error);

inline constexpr uint64_t kMessageBytesMax = 1ull << 31;

/// Some programs' elements are not aligned (libiscsi's lie in a packed structure).
inline uint32_t length_of(const ibv_sge* segment) {
  uint32_t length = 0;
  std::memcpy(&length, reinterpret_cast<const std::byte*>(segment) + offsetof(ibv_sge, length),
              sizeof length);
  return length;
}

/// Bytes of a list; more than a message can have when it is too long.
[[gnu::noinline]] uint64_t sum_of_many(const ibv_sge* segments, uint32_t count);
inline uint64_t sum(const ibv_sge* segments, uint32_t count) {
  if (count == 1) [[likely]]
    return length_of(segments);
  return sum_of_many(segments, count);
}

/// The two shapes of a list of segments are one.
inline void copy_segments(queue::Segment* to, const ibv_sge* from, uint32_t count) {
  static_assert(sizeof(ibv_sge) == sizeof(queue::Segment));
  static_assert(offsetof(ibv_sge, addr) == offsetof(queue::Segment, address));
  static_assert(offsetof(ibv_sge, length) == offsetof(queue::Segment, length));
  static_assert(offsetof(ibv_sge, lkey) == offsetof(queue::Segment, lkey));
  if (count == 1) [[likely]] {
    std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), sizeof(queue::Segment));
  } else if (count != 0) {
    std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), count * sizeof(queue::Segment));
  }
}

/// Writes a request down as a queue keeps it; its number of segments is checked.
inline void describe_receive(const ibv_recv_wr& from, queue::ReceiveRequest& to, queue::Segment* segments) {
  const auto count = static_cast<uint32_t>(from.num_sge);
  // Buffers may be longer than any message; the length only says what fits.
  const auto length = static_cast<uint32_t>(std::min<uint64_t>(sum(from.sg_list, count), UINT32_MAX));
  to = {.wr_id = from.wr_id, .length = length, .segments = static_cast<uint16_t>(count)};
  copy_segments(segments, from.sg_list, count);
}

/// Whether a request to that shared receive queue may be posted, and the attachment that names it.
inline bool can_name_srq(uint32_t number) { return number != 0 && number <= queue::SrqNumber::kMask; }
inline void set_srq(const VerbsQp& qp, queue::SendRequest& request, uint32_t number) {
  qp.handle->send_queue.attach(request, queue::SrqNumber{number});
}

/// Whether a request of a UD queue pair may go there, and the attachment that makes it do so.
bool can_go_to(const VerbsQp& qp, const ibv_ah* ah, uint32_t number);
void set_address(const VerbsQp& qp, queue::SendRequest& request, ibv_ah& ah, uint32_t number, uint32_t qkey);

/// The key that the bind request of a window asks for by its low eight bits: the others are the window's,
/// whatever the request has there. Once the request is written down it is the window's `rkey`.
MemoryKey new_key(const ibv_mw& mw, uint32_t rkey);

/// What a window is to be bound to; 0, or EINVAL for what no poller could refuse.
int translate(const VerbsQp& qp, const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info,
              qp::BindOperation& to);

}  // namespace uroce::verbs
