#include <fmt/format.h>

#include <cerrno>
#include <mutex>

#include "engine/device/device.h"
#include "engine/device/device_state.h"

namespace uroce::engine {

bool Device::has_queue_pair(QpNumber number) const {
  const std::lock_guard guard(state_->mutex);
  for (const PollerQp* entry = state_->entries.first(); entry != nullptr; entry = entry->next)
    if (entry->queue_pair.number() == number) return true;
  return false;
}

Status Device::add_fault(const faults::NumberedRule& numbered) {
  if (state_->inherited()) return Error{ENODEV, "the process is a fork of the device's"};
  const faults::Rule& rule = numbered.rule;
  if (!rule.scope.device.empty() && rule.scope.device != name()) return {};
  if (rule.scope.queue_pair && !has_queue_pair(*rule.scope.queue_pair))
    return Error{ENOENT, fmt::format("qp: there is no queue pair {}", rule.scope.queue_pair->value)};
  return state_->faults.add(state_->pollers, numbered);
}

bool Device::remove_fault(uint32_t id) {
  return !state_->inherited() && state_->faults.remove(state_->pollers, id);
}

std::vector<InjectedFaults::Report> Device::faults() const { return state_->faults.reports(); }

Result<int> Device::add_capture(uint32_t id, const capture::Order& order) {
  if (state_->inherited()) return Error{ENODEV, "the process is a fork of the device's"};
  if (order.scope.queue_pair && !has_queue_pair(*order.scope.queue_pair))
    return Error{ENOENT, fmt::format("qp: there is no queue pair {}", order.scope.queue_pair->value)};
  return state_->captures.start(state_->pollers, id, order);
}

bool Device::remove_capture(uint32_t id) {
  return !state_->inherited() && state_->captures.stop(state_->pollers, id);
}

}  // namespace uroce::engine
