#include <infiniband/urocedv.h>

#include <cerrno>

#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

static_assert(mem::kFlushGlobal.bits() == UROCEDV_ACCESS_FLUSH_GLOBAL);
static_assert(mem::kFlushPersistent.bits() == UROCEDV_ACCESS_FLUSH_PERSISTENT);
static_assert(static_cast<int>(queue::CompletionOpcode::kFlush) == UROCEDV_WC_FLUSH);

void post_flush(ibv_qp_ex* face, const queue::FlushOperation& operation, MemoryKey rkey,
                uint64_t remote_address, size_t length) {
  queue::SendRequest* request = begin(face, queue::SendOperation::kFlush);
  if (request == nullptr) return;
  request->remote_address = remote_address;
  request->rkey = rkey;
  request->length = static_cast<uint32_t>(length);
  const VerbsQp& qp = object(face);
  qp.handle->send_queue.set_operation(*request, operation);
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce;
using namespace uroce::verbs;

extern "C" UROCE_EXPORT void uroce_urocedv_wr_flush(ibv_qp_ex* face, uint32_t rkey, uint64_t remote_address,
                                                    size_t length, uint8_t type, uint8_t level) {
  if (!is_ours(face)) return;
  constexpr unsigned kTypes = unsigned{UROCEDV_FLUSH_GLOBAL} | UROCEDV_FLUSH_PERSISTENT;
  const bool known =
      type != 0 && (type & ~kTypes) == 0 && (level == UROCEDV_FLUSH_RANGE || level == UROCEDV_FLUSH_MR);
  if (!known || length > kMessageBytesMax) return refuse(object(face), EINVAL);
  post_flush(face,
             {.global_visibility = (type & UROCEDV_FLUSH_GLOBAL) != 0,
              .persistence = (type & UROCEDV_FLUSH_PERSISTENT) != 0,
              .whole_region = level == UROCEDV_FLUSH_MR},
             {rkey}, remote_address, length);
}
