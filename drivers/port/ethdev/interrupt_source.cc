#include "drivers/port/ethdev/interrupt_source.h"

#include <sys/eventfd.h>
#include <unistd.h>

// The calls that make a source of interrupts are marked experimental in DPDK 22.11.
#define ALLOW_EXPERIMENTAL_API
#include <rte_interrupts.h>

#include "drivers/port/ethdev/interrupt_thread.h"

namespace uroce::drivers {
namespace {

/// The driver's own function of the same source sees to what there is to do.
void nothing(void*) {}

class Handle {
 public:
  explicit Handle(int descriptor) : handle_(rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE)) {
    if (handle_ == nullptr) return;
    rte_intr_fd_set(handle_, descriptor);
    rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT);
  }
  ~Handle() { rte_intr_instance_free(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // EAL makes a copy.
  [[nodiscard]] bool enter() const {
    return handle_ != nullptr && rte_intr_callback_register(handle_, nothing, nullptr) == 0;
  }
  void remove() const { rte_intr_callback_unregister(handle_, nothing, nullptr); }

 private:
  rte_intr_handle* handle_;
};

}  // namespace

int make_with_lasting_source(const std::function<int()>& make, const std::function<bool(int)>& is_made) {
  int result = 0;
  // The interrupt thread asks the kernel about all sources when it comes back from here, not before: that the
  // number is unused for a moment is not seen.
  on_interrupt_thread([&] {
    const int number = eventfd(0, EFD_CLOEXEC);
    const Handle handle(number);
    const bool entered = number >= 0 && handle.enter();
    if (number >= 0) close(number);
    result = make();
    if (entered && !is_made(number)) handle.remove();
  });
  return result;
}

}  // namespace uroce::drivers
