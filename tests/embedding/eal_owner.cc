// A program that has an EAL of its own, uses the verbs over it, and ends the EAL in its own order.
//
//   eal_owner closed | destructor | handler
//
// When EAL has given its memory back, its interrupt thread is still there and goes through its sources once
// more: what is left of a port of the verbs in them must not lie in that memory.
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <thread>

#define ALLOW_EXPERIMENTAL_API
#include <rte_eal.h>
#include <rte_interrupts.h>

namespace {

bool ends_in_destructor = false;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "eal_owner: %s\n", what);
  _exit(1);
}

/// Ends EAL; returns when its interrupt thread has looked at all its sources after that.
void end_eal() {
  if (rte_eal_cleanup() != 0) fail("EAL does not end");
  static std::atomic<bool> called{false};
  const int event = eventfd(1, EFD_CLOEXEC);
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  rte_intr_fd_set(handle, event);
  rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT);
  if (rte_intr_callback_register(
          handle, [](void*) { called = true; }, nullptr) != 0)
    fail("no source");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!called && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  if (!called) fail("the interrupt thread does not live any more");
}

[[gnu::destructor]] void at_the_very_end() {
  if (ends_in_destructor) end_eal();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view order = argc > 1 ? argv[1] : "";
  const char* arguments[] = {"eal_owner",   "--no-huge",      "-m",           "256", "--no-pci",
                             "--no-shconf", "--no-telemetry", "--log-level=1"};
  if (rte_eal_init(std::size(arguments), const_cast<char**>(arguments)) < 0) fail("EAL does not start");
  if (order == "handler") std::atexit(end_eal);  // runs after what is registered later
  ends_in_destructor = order == "destructor";
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count != 2) fail("not two devices");
  ibv_context* contexts[] = {ibv_open_device(list[0]), ibv_open_device(list[1])};
  if (contexts[0] == nullptr || contexts[1] == nullptr) fail("a device does not open");
  ibv_free_device_list(list);
  if (order == "closed") {
    for (ibv_context* context : contexts) ibv_close_device(context);
    end_eal();
  }
  return 42;
}
