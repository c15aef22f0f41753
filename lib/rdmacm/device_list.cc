#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>

#include "rdmacm/device.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT ibv_context** uroce_rdma_get_devices(int* count) {
  return uroce::verbs::pointer_or_errno([&]() -> ibv_context** {
    if (count != nullptr) *count = 0;
    const auto all = devices();
    if (!all) return uroce::verbs::fail(all.error().code);
    auto** list = static_cast<ibv_context**>(std::calloc(all->size() + 1, sizeof(ibv_context*)));
    if (list == nullptr) return uroce::verbs::fail(ENOMEM);
    for (size_t i = 0; i < all->size(); ++i) list[i] = (*all)[i]->verbs();
    if (count != nullptr) *count = static_cast<int>(all->size());
    return list;
  });
}

UROCE_EXPORT void uroce_rdma_free_devices(ibv_context** list) { std::free(list); }

}  // extern "C"
