#include "drivers/port/ethdev/memif/watched_socket.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

// The calls that make a source of interrupts (rte_intr_instance_alloc() and what fills it in) are marked
// experimental in DPDK 22.11.
#define ALLOW_EXPERIMENTAL_API
#include <rte_interrupts.h>

namespace uroce::drivers {

/// One epoll descriptor stands for all of ours in EAL, for good. EAL knows its sources by the number of their
/// descriptor and may have news of one in hand that was closed meanwhile; if ours came and went there,
/// drivers that got a number anew would be called for nothing, and net_memif would wait for a message then.
int WatchedSocket::watching_descriptor() {
  static const int epoll = [] {
    const int descriptor = epoll_create1(EPOLL_CLOEXEC);
    rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    if (handle != nullptr && rte_intr_fd_set(handle, descriptor) == 0 &&
        rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0) {
      rte_intr_callback_register(handle, serve, nullptr);
    }
    rte_intr_instance_free(handle);  // EAL has its own copy
    return descriptor;
  }();
  return epoll;
}

/// One at a time: what is ready next may have been closed by this one. EAL calls again while something is.
void WatchedSocket::serve(void*) {
  epoll_event event{};
  if (epoll_wait(watching_descriptor(), &event, 1, 0) != 1) return;
  const auto ready = static_cast<const WatchedSocket*>(event.data.ptr)->ready_;  // outlives the object
  ready();
}

WatchedSocket::WatchedSocket(int descriptor, std::function<void()> ready)
    : descriptor_(descriptor), ready_(std::move(ready)) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = this}};
  epoll_ctl(watching_descriptor(), EPOLL_CTL_ADD, descriptor_, &event);
}

WatchedSocket::~WatchedSocket() {
  // Closing is not enough: a child process may have a copy.
  epoll_ctl(watching_descriptor(), EPOLL_CTL_DEL, descriptor_, nullptr);
  close(descriptor_);
}

}  // namespace uroce::drivers
