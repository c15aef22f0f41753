#include "drivers/process/verbs_in_process.h"

#include <link.h>

#include <string_view>

namespace uroce::drivers {

bool has_our_verbs() {
  // What the faces jump into; programs that have the stack in themselves, as the service, lack it.
  const auto is_stack = [](dl_phdr_info* object, size_t /*size*/, void* /*unused*/) {
    return static_cast<int>(std::string_view(object->dlpi_name).ends_with("/liburoce.so.0"));
  };
  return dl_iterate_phdr(is_stack, nullptr) != 0;
}

}  // namespace uroce::drivers
