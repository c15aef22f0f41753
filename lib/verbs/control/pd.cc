#include <cerrno>
#include <list>
#include <mutex>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_pd* uroce_ibv_alloc_pd(ibv_context* face) {
  if (!all_given(face)) return fail(EINVAL);
  return pointer_or_errno([&]() -> ibv_pd* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    auto pd = std::make_unique<VerbsPd>();
    std::list<uroce::DomainId> entry(1);
    const uroce::Result<uroce::DomainId> domain = context.device->allocate_domain();
    if (!domain) return fail("alloc_pd", domain.error());
    pd->context = face;
    pd->domain = *domain;
    pd->handle = pd->domain.value;
    entry.front() = pd->domain;
    pd->place = entry.begin();
    const std::lock_guard guard(context.domains_mutex);
    context.domains.splice(context.domains.end(), entry);
    context.users.fetch_add(1);
    return pd.release();
  });
}

UROCE_EXPORT int uroce_ibv_dealloc_pd(ibv_pd* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  VerbsPd& pd = object(face);
  VerbsContext& context = object(pd.context);
  if (!context.alive()) return with_errno(EIO);
  if (pd.users.load() != 0) return with_errno(EBUSY);
  // Memory that was freed may be kept for the next allocation; a region of another domain may cover it.
  if (pd.arena != nullptr && !pd.arena->end()) return with_errno(EBUSY);
  if (pd.below != nullptr) {
    pd.below->users.fetch_sub(1);
    if (pd.td != nullptr) pd.td->users.fetch_sub(1);
  } else {
    const std::lock_guard guard(context.domains_mutex);
    context.domains.erase(pd.place);
    context.device->free_domain(pd.domain);
  }
  context.users.fetch_sub(1);
  delete &pd;
  return 0;
}

}  // extern "C"
