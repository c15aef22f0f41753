#include <cerrno>
#include <mutex>
#include <vector>

#include "verbs/call_guard.h"
#include "verbs/export.h"
#include "verbs/objects.h"

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_pd* uroce_ibv_alloc_pd(ibv_context* face) {
  return pointer_or_errno([&]() -> ibv_pd* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    auto pd = std::make_unique<VerbsPd>();
    const std::lock_guard guard(context.domains_mutex);
    context.domains.reserve(context.domains.size() + 1);
    const uroce::Result<uroce::DomainId> domain = context.device->allocate_domain();
    if (!domain) return fail(domain.error().code);
    pd->context = face;
    pd->domain = *domain;
    pd->handle = pd->domain.value;
    context.domains.push_back(pd->domain);
    context.users.fetch_add(1);
    return pd.release();
  });
}

UROCE_EXPORT int uroce_ibv_dealloc_pd(ibv_pd* face) {
  VerbsPd& pd = object(face);
  VerbsContext& context = object(pd.context);
  if (!context.alive()) return EIO;
  if (pd.users.load() != 0) return EBUSY;
  // Memory that was freed may be kept for the next who needs some; a region of another domain may cover it.
  if (pd.arena != nullptr && !pd.arena->end()) return EBUSY;
  if (pd.below != nullptr) {
    pd.below->users.fetch_sub(1);
    if (pd.td != nullptr) pd.td->users.fetch_sub(1);
  } else {
    const std::lock_guard guard(context.domains_mutex);
    std::erase(context.domains, pd.domain);
    context.device->free_domain(pd.domain);
  }
  context.users.fetch_sub(1);
  delete &pd;
  return 0;
}

}  // extern "C"
