#include "drivers/port/ethdev/interrupt_thread.h"

#include <rte_alarm.h>

#include <future>

namespace uroce::drivers {
namespace {

struct Task {
  const std::function<void()>& work;
  std::promise<void> done;
};

}  // namespace

void on_interrupt_thread(const std::function<void()>& work) {
  Task task{work, {}};
  constexpr uint64_t kAtOnceUs = 1;
  const auto run = [](void* argument) {
    auto& due = *static_cast<Task*>(argument);
    due.work();
    due.done.set_value();
  };
  if (rte_eal_alarm_set(kAtOnceUs, run, &task) == 0) {
    task.done.get_future().wait();
  } else {
    work();
  }
}

}  // namespace uroce::drivers
