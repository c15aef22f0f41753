// liburocedv.so.1 is not linked but opened beside the stack, if the stack is in the process: the target also
// runs on other libraries' devices.
#include "nvmf/rdma/direct_verbs.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <optional>

namespace uroce::nvmf {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<DirectVerbs> load() {
  // The verbs face has loaded the stack, or it is not uroce's.
  void* const stack = dlopen("liburoce.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (stack == nullptr) return std::nullopt;
  link_map* where = nullptr;
  const bool known = dlinfo(stack, RTLD_DI_LINKMAP, &where) == 0;
  const std::filesystem::path beside = known ? std::filesystem::path(where->l_name).parent_path() : "";
  void* const library = dlopen((beside / "liburocedv.so.1").c_str(), RTLD_LAZY | RTLD_LOCAL);
  dlclose(stack);
  DirectVerbs found;
  const bool all = library != nullptr && find(library, "urocedv_dma_map_single", found.map) &&
                   find(library, "urocedv_dma_unmap_single", found.unmap) &&
                   find(library, "urocedv_reg_phys_mr", found.register_physical) &&
                   find(library, "urocedv_get_dma_mr", found.get_dma_region) &&
                   find(library, "urocedv_is_supported", found.is_supported);
  return all ? std::optional(found) : std::nullopt;
}

}  // namespace

const DirectVerbs* direct_verbs(ibv_device& device) {
  static const std::optional<DirectVerbs> verbs = load();
  return verbs && verbs->is_supported(&device) ? &*verbs : nullptr;
}

}  // namespace uroce::nvmf
