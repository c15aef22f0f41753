// Memory windows.
//
// The low eight bits of `bind_mw.rkey` are what a bind chooses; the other bits are the window's own. The
// resulting key is written to `mw->rkey` when the request is accepted, as providers do, because programs pass
// any number. Cost: a program that passes the key of another window by mistake gets no error.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <mutex>

#include "engine/platform/fault_handler.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

struct VerbsMw : ibv_mw {
  std::unique_ptr<mem::Window> window;
  std::mutex binding;  // of type 1, like the next
  MemoryKey key;       // that it was given last; that of the face is the application's to spoil
};

ibv_mw* make_window(ibv_pd* pd, ibv_mw_type type, mem::RegionKind kind) {
  return pointer_or_errno([&]() -> ibv_mw* {
    VerbsContext& context = object(pd->context);
    if (!context.alive()) return fail(EIO);
    engine::install_fault_handler();
    auto mw = std::make_unique<VerbsMw>();
    auto window = mem::Window::make(context.device->regions(), object(pd).domain, kind);
    if (!window) return fail("alloc_mw", window.error());
    mw->window = std::move(*window);
    mw->context = pd->context;
    mw->pd = pd;
    mw->key = mw->window->first_key();
    mw->rkey = mw->key.value;
    mw->handle = mw->window->first_key().index();
    mw->type = type;
    object(pd).users.fetch_add(1);
    return mw.release();
  });
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const unsigned wanted = bits_of(type);
  if (wanted != IBV_MW_TYPE_1 && wanted != IBV_MW_TYPE_2) return fail(EINVAL);
  if (wanted == IBV_MW_TYPE_1) return make_window(pd, type, mem::RegionKind::kWindow1);
  const bool of_domain = object(pd->context).device->window_type2() == engine::WindowType2::k2A;
  return make_window(pd, type, of_domain ? mem::RegionKind::kWindow2A : mem::RegionKind::kWindow2B);
}

int dealloc_mw(ibv_mw* face) {
  VerbsMw& mw = static_cast<VerbsMw&>(*face);
  if (!object(mw.context).alive()) return with_errno(EIO);
  mw.window->end();
  object(mw.pd).users.fetch_sub(1);
  delete &mw;
  return 0;
}

MemoryKey new_key(const ibv_mw& mw, uint32_t rkey) {
  return MemoryKey::make(static_cast<const VerbsMw&>(mw).window->first_key().index(),
                         static_cast<uint8_t>(rkey));
}

int translate(const VerbsQp& qp, const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info,
              qp::BindOperation& to) {
  if (mw == nullptr || mw->context != &qp.owner->context) return EINVAL;
  if (info.mr == nullptr ? info.addr != 0 || info.length != 0 : info.mr->context != &qp.owner->context)
    return EINVAL;
  to = {.window = static_cast<const VerbsMw*>(mw)->window->first_key(),
        .key = new_key(*mw, rkey),
        .region = info.mr != nullptr ? current_key(object(info.mr)) : MemoryKey{},
        // A window has rights for peers only. Programs ask for local writing beside them, as for a region,
        // and hardware takes that for a matter of course.
        .access = mem::Access(info.mw_access_flags & ~unsigned{IBV_ACCESS_LOCAL_WRITE}),
        .address = info.addr,
        .length = info.length,
        .type1 = bits_of(mw->type) == IBV_MW_TYPE_1};
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (!all_given(qp, mw, bind) || bits_of(mw->type) != IBV_MW_TYPE_1) return with_errno(EINVAL);
  if ((bind->send_flags & ~unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED}) != 0) return with_errno(EINVAL);
  ibv_send_wr request{};
  request.wr_id = bind->wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = bind->send_flags;
  VerbsMw& window = static_cast<VerbsMw&>(*mw);
  const std::lock_guard lock(window.binding);
  const MemoryKey next = object(mw->context).device->regions().next_key(window.key);
  request.bind_mw = {.mw = mw, .rkey = next.value, .bind_info = bind->bind_info};
  if (const int error = post_bind(qp, request); error != 0) return with_errno(error);
  window.key = next;
  return 0;
}

}  // namespace uroce::verbs

using namespace uroce;
using namespace uroce::verbs;

extern "C" UROCE_EXPORT ibv_mw* uroce_urocedv_alloc_mw(ibv_pd* pd, unsigned type) {
  if (pd == nullptr) return fail(EINVAL);
  if (const int error = check_context(pd->context); error != 0) return fail(error);
  switch (type) {
    case UROCEDV_MW_TYPE_1:
      return make_window(pd, IBV_MW_TYPE_1, mem::RegionKind::kWindow1);
    case UROCEDV_MW_TYPE_2A:
      return make_window(pd, IBV_MW_TYPE_2, mem::RegionKind::kWindow2A);
    case UROCEDV_MW_TYPE_2B:
      return make_window(pd, IBV_MW_TYPE_2, mem::RegionKind::kWindow2B);
  }
  return fail(EINVAL);
}
