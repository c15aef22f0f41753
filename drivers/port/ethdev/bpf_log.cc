#include "drivers/port/ethdev/bpf_log.h"

#include <dlfcn.h>

#include <cstdarg>

namespace uroce::drivers {
namespace {

using Print = int (*)(int level, const char* format, va_list arguments);

int print_nothing(int, const char*, va_list) { return 0; }

/// The driver is loaded by EAL when it starts, and brings these libraries along; we do not link them.
void silence(const char* library, const char* setter) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return;
  if (void* found = dlsym(handle, setter)) reinterpret_cast<Print (*)(Print)>(found)(print_nothing);
  dlclose(handle);
}

}  // namespace

void silence_bpf() {
  silence("libbpf.so.1", "libbpf_set_print");
  silence("libxdp.so.1", "libxdp_set_print");
}

}  // namespace uroce::drivers
