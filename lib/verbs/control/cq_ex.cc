#include <time.h>

#include <cerrno>

#include "engine/platform/clock.h"
#include "engine/scheduling/oversubscription.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"

// Completion queues of the extended kind (ibv_start_poll and its relatives): between start and end the caller
// looks at one completion after the other, and holds the queue's lock.

namespace uroce::verbs {

namespace {

const queue::Completion& current(ibv_cq_ex* face) { return object(face).current; }

/// Makes the next completion the current one.
bool advance(VerbsCq& cq) {
  if (cq.queue->poll({&cq.current, 1}) == 0) return false;
  cq.face_extended.wr_id = cq.current.wr_id;
  cq.face_extended.status = static_cast<ibv_wc_status>(cq.current.status);
  return true;
}

int start_poll(ibv_cq_ex* face, ibv_poll_cq_attr* attributes) {
  VerbsCq& cq = object(face);
  if (!cq.owner->alive()) return EIO;
  if (attributes == nullptr || attributes->comp_mask != 0) return EINVAL;
  if (cq.queue->empty()) cq.device->turn_for(*cq.queue);
  const bool empty = cq.queue->empty();
  engine::note_poll(!empty);
  if (empty) return cq.queue->overrun() ? EIO : ENOENT;
  cq.poll_lock.lock();
  if (advance(cq)) return 0;
  cq.poll_lock.unlock();
  return ENOENT;
}

int next_poll(ibv_cq_ex* face) { return advance(object(face)) ? 0 : ENOENT; }

void end_poll(ibv_cq_ex* face) {
  VerbsCq& cq = object(face);
  cq.poll_lock.unlock();
  cq.queue->remind();
}

void fill_operations(ibv_cq_ex& face) {
  face.start_poll = start_poll;
  face.next_poll = next_poll;
  face.end_poll = end_poll;
  face.read_opcode = [](ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); };
  face.read_vendor_err = [](ibv_cq_ex*) { return uint32_t{0}; };
  face.read_byte_len = [](ibv_cq_ex* cq) { return current(cq).bytes; };
  face.read_imm_data = [](ibv_cq_ex* cq) { return __be32{current(cq).immediate}; };
  face.read_qp_num = [](ibv_cq_ex* cq) { return current(cq).local.value; };
  face.read_src_qp = [](ibv_cq_ex* cq) { return current(cq).remote.value; };
  face.read_wc_flags = [](ibv_cq_ex* cq) { return flags_of(current(cq)); };
  face.read_slid = [](ibv_cq_ex*) { return uint32_t{0}; };
  face.read_cvlan = [](ibv_cq_ex* cq) { return current(cq).vlan_tci; };
  face.read_sl = [](ibv_cq_ex* cq) { return current(cq).service_level; };
  // Of the clock that ibv_query_rt_values_ex reads; the date is that of now, moved back by the difference.
  face.read_completion_ts = [](ibv_cq_ex* cq) { return static_cast<uint64_t>(current(cq).time.ns); };
  face.read_completion_wallclock_ns = [](ibv_cq_ex* cq) {
    timespec date{};
    clock_gettime(CLOCK_REALTIME, &date);
    const int64_t age = engine::clock_now().ns - current(cq).time.ns;
    return static_cast<uint64_t>(int64_t{date.tv_sec} * 1'000'000'000 + date.tv_nsec - age);
  };
  face.read_dlid_path_bits = [](ibv_cq_ex*) { return uint8_t{0}; };
}

/// 0, or why no queue like this can be made.
int check(const ibv_context& context, const ibv_cq_init_attr_ex& wanted) {
  if ((wanted.comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD}) != 0)
    return EOPNOTSUPP;
  const bool flags_given = (wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if (flags_given && (wanted.flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) return EOPNOTSUPP;
  constexpr uint64_t kTimes =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  if ((wanted.wc_flags & ~(uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_CVLAN | kTimes)) != 0)
    return EOPNOTSUPP;
  if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    const ibv_pd* pd = wanted.parent_domain;
    if (pd == nullptr || pd->context != &context || static_cast<const VerbsPd*>(pd)->below == nullptr)
      return EINVAL;
  }
  return wanted.comp_vector < static_cast<uint32_t>(context.num_comp_vectors) ? 0 : EINVAL;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  return pointer_or_errno([&]() -> ibv_cq_ex* {
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check(*context, *wanted); error != 0) return fail(error);
    const bool in_domain = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
    ibv_cq* cq = create_cq(context, wanted->cqe, wanted->cq_context, wanted->channel,
                           in_domain ? &verbs::object(wanted->parent_domain) : nullptr);
    if (cq == nullptr) return nullptr;
    ibv_cq_ex& face = verbs::object(cq).face_extended;
    fill_operations(face);
    return &face;
  });
}

}  // namespace uroce::verbs
