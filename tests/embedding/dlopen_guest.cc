// A program that loads the verbs library at run time, as MPI libraries do, and unloads it again.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

struct Library {
  Library() : handle(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  }
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
  void* handle;
};

ibv_context* open_first(const Library& library) {
  // verbs.h makes some of the names macros.
  ibv_device** const list = library.find<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
  ibv_context* const context = library.find<ibv_context*(ibv_device*)>("ibv_open_device")(list[0]);
  library.find<void(ibv_device**)>("ibv_free_device_list")(list);
  return context;
}

int close_device(const Library& library, ibv_context* context) {
  return library.find<int(ibv_context*)>("ibv_close_device")(context);
}

void let_threads_run() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

int with_devices_open() {
  const Library first;
  ibv_context* const context = open_first(first);
  if (context == nullptr || dlclose(first.handle) != 0) return 1;
  let_threads_run();
  const Library second;
  if (close_device(second, context) != 0) return 2;
  return dlclose(second.handle) == 0 ? 42 : 3;
}

int with_devices_open_for_good() {
  const Library library;
  if (open_first(library) == nullptr || dlclose(library.handle) != 0) return 1;
  let_threads_run();
  return 42;
}

int again_and_again() {
  for (int i = 0; i < 3; ++i) {
    const Library library;
    ibv_context* const context = open_first(library);
    if (context == nullptr || close_device(library, context) != 0 || dlclose(library.handle) != 0) return 1;
    let_threads_run();
  }
  return 42;
}

int without_opening_anything() {
  for (int i = 0; i < 3; ++i) {
    const Library library;
    if (library.handle == nullptr || dlclose(library.handle) != 0) return 1;
  }
  return 42;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (wanted == "dlclose-with-devices-open") return with_devices_open();
  if (wanted == "dlclose-with-devices-open-for-good") return with_devices_open_for_good();
  if (wanted == "dlclose-again-and-again") return again_and_again();
  if (wanted == "dlclose-without-opening-anything") return without_opening_anything();
  std::puts(
      "dlclose-with-devices-open\ndlclose-with-devices-open-for-good\ndlclose-again-and-again\n"
      "dlclose-without-opening-anything");
  return 0;
}
