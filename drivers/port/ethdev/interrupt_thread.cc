#include "drivers/port/ethdev/interrupt_thread.h"

#include <rte_alarm.h>

#include <future>

namespace uroce::drivers {
namespace {

struct Task {
  const std::function<void()>& work;
  std::promise<void> done;
};

/// False: EAL takes no more alarms.
bool run_there(const std::function<void()>& work) {
  Task task{work, {}};
  constexpr uint64_t kAtOnceUs = 1;
  const auto run = [](void* argument) {
    auto& due = *static_cast<Task*>(argument);
    due.work();
    due.done.set_value();
  };
  if (rte_eal_alarm_set(kAtOnceUs, run, &task) != 0) return false;
  task.done.get_future().wait();
  return true;
}

}  // namespace

void on_interrupt_thread(const std::function<void()>& work) {
  if (!run_there(work)) return work();
  // What the work has removed the thread frees behind it, in DPDK's heap, which a program may clean up next.
  // It has done so when it comes to another task.
  run_there([] {});
}

}  // namespace uroce::drivers
