#include <mutex>

#include "engine/scheduling/oversubscription.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/wire_hint.h"

namespace uroce::verbs {

namespace {

using queue::Completion;

static_assert(static_cast<int>(queue::CompletionStatus::kFlushed) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(queue::CompletionStatus::kRemoteAccessError) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(queue::CompletionStatus::kRetryExceeded) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(queue::CompletionStatus::kRnrRetryExceeded) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(queue::CompletionStatus::kGeneral) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<int>(queue::CompletionOpcode::kRead) == IBV_WC_RDMA_READ);
static_assert(static_cast<int>(queue::CompletionOpcode::kCompareSwap) == IBV_WC_COMP_SWAP);
static_assert(static_cast<int>(queue::CompletionOpcode::kFetchAdd) == IBV_WC_FETCH_ADD);
static_assert(static_cast<int>(queue::CompletionOpcode::kAtomicWrite) == IBV_WC_ATOMIC_WRITE);
static_assert(static_cast<int>(queue::CompletionOpcode::kReceive) == IBV_WC_RECV);
static_assert(static_cast<int>(queue::CompletionOpcode::kReceiveWriteImm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(static_cast<int>(queue::CompletionOpcode::kBindWindow) == IBV_WC_BIND_MW);
static_assert(static_cast<int>(queue::CompletionOpcode::kLocalInvalidate) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(queue::CompletionOpcode::kRegister) == IBV_WC_DRIVER1);
static_assert(static_cast<int>(queue::CompletionStatus::kWindowBindError) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(queue::CompletionStatus::kRemoteInvalidRequest) == IBV_WC_REM_INV_REQ_ERR);
static_assert(offsetof(ibv_wc, imm_data) == offsetof(ibv_wc, invalidated_rkey));

void fill_completion(const Completion& from, ibv_wc& to) {
  to = {.wr_id = from.wr_id,
        .status = static_cast<ibv_wc_status>(from.status),
        .opcode = static_cast<ibv_wc_opcode>(from.opcode),
        .byte_len = from.bytes,
        .imm_data = from.immediate,  // or, in the same place, invalidated_rkey
        .qp_num = from.local.value,
        .src_qp = from.remote.value,
        .wc_flags = flags_of(from),
        .pkey_index = from.pkey_index,
        .sl = from.service_level};
}

[[gnu::cold]] void hint(const VerbsCq& cq) {
  hint_at_wire(*cq.face.context->device, "a peer does not answer");
}

size_t drain(VerbsCq& cq, size_t entries, ibv_wc* to) {
  // Most polls of most programs find nothing; they need not take the lock.
  if (cq.queue->empty()) return 0;
  const std::lock_guard guard(cq.poll_lock);
  return cq.queue->poll(entries, [to, &cq](const Completion& from) mutable {
    if (from.status == queue::CompletionStatus::kRetryExceeded) [[unlikely]]
      hint(cq);
    fill_completion(from, *to++);
  });
}

}  // namespace

int poll_cq(ibv_cq* face, int entries, ibv_wc* completions) {
  VerbsCq& cq = object(face);
  if (!cq.owner->alive()) return -1;
  if (entries <= 0) return 0;
  const auto wanted = static_cast<size_t>(entries);
  size_t count = drain(cq, wanted, completions);
  if (count == 0) {
    cq.device->turn_for(*cq.queue);
    count = drain(cq, wanted, completions);
  }
  engine::note_poll(count != 0);
  if (count == wanted) cq.queue->remind();
  return count == 0 && cq.queue->overrun() ? -1 : static_cast<int>(count);
}

}  // namespace uroce::verbs
