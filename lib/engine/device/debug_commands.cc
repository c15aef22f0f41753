#include "engine/device/debug_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/process/per_process.h"
#include "capture/order.h"
#include "engine/device/device.h"
#include "engine/platform/clock.h"
#include "faults/breakage.h"
#include "faults/schedule.h"
#include "host/control.h"

namespace uroce::engine {
namespace {

constexpr int64_t kForeverNs = 3'600'000'000'000;
/// How soon it is noticed that the tool has gone for which frames are captured.
constexpr int64_t kLookForCapturerNs = 200'000'000;

static_assert(host::kOrderedFaultsMax == faults::kRulesMax);

Error no_queue_pair(const host::Scope& scope) {
  return {ENOENT, fmt::format("qp: there is no queue pair {}", scope.queue_pair.value_or(QpNumber{}).value)};
}

}  // namespace

DebugCommands& DebugCommands::of_process() {
  static PerProcess<DebugCommands> the;
  return the.get();
}

Status DebugCommands::add(Device& device, std::span<const faults::Rule> configured) {
  const std::lock_guard lifetime(lifetime_);
  Status started = memory_ ? Status() : start();
  const std::lock_guard guard(mutex_);
  const Instant now = MachineClocks::system();
  if (devices_.empty()) {
    faults_.clear();
    next_ = 1;
    for (const faults::Rule& rule : configured) faults_.push_back({next_++, rule, now});
  }
  devices_.push_back(&device);
  for (const Ordered& fault : faults_) {
    if (fault.id <= configured.size() || fault.rule.scope.queue_pair) continue;
    // Where there is no room for it, the device does without.
    if (const auto left = faults::left_after(fault.rule, now - fault.since))
      static_cast<void>(device.add_fault({fault.id, *left}));
  }
  return started;
}

void DebugCommands::remove(Device& device) {
  const std::lock_guard lifetime(lifetime_);
  {
    const std::lock_guard guard(mutex_);
    if (std::erase(devices_, &device) == 0) return;
    if (!devices_.empty()) return;
    captures_ = false;
  }
  if (memory_) stop();
}

Status DebugCommands::start() {
  auto made = host::OwnOrders::make();
  if (!made) return made.error();
  memory_.emplace(std::move(*made));
  stopping_.store(false, std::memory_order_relaxed);  // ordered by the start of the thread
  sleep_.sleep_at(memory_->memory().question.bell);
  auto thread = Thread::start("uroce-orders", {}, [this] { serve(); });
  if (!thread) {
    memory_.reset();
    return thread.error();
  }
  thread_.emplace(std::move(*thread));
  return {};
}

void DebugCommands::stop() {
  memory_->memory().question.end();
  stopping_.store(true, std::memory_order_seq_cst);  // partner: the thread that falls asleep
  sleep_.wake();
  thread_->join();
  thread_.reset();
  memory_.reset();
}

void DebugCommands::serve() {
  host::OrdersMemory& memory = memory_->memory();
  bool captures = false;
  // Relaxed: it only needs to be seen some time; joining orders the rest.
  while (!stopping_.load(std::memory_order_relaxed)) {
    const auto is_asked = [&] {
      return memory.question.is_pending() || stopping_.load(std::memory_order_seq_cst);  // partner: stop()
    };
    sleep_.park_unless(is_asked, captures ? kLookForCapturerNs : kForeverNs);
    if (stopping_.load(std::memory_order_relaxed)) return;  // as above
    const std::lock_guard guard(mutex_);
    if (is_asked()) answer();
    if (captures_ && !memory_->has_capturer()) stop_capture();
    captures = captures_;
  }
}

void DebugCommands::answer() {
  host::OrdersMemory& memory = memory_->memory();
  const uint32_t asked = memory.question.take();
  memory.number_answered = 0;
  memory.faults_shown = 0;
  memory.captures_shown = 0;
  const Status status = perform(memory);
  memory.error = status ? 0 : status.error().code;
  host::set_text(memory.complaint, status ? std::string_view() : status.error().message);
  memory.question.answer(asked);  // the tool looks once in a while
}

/// Performs the order that a tool has written, which is read once: the tool may change it.
Status DebugCommands::perform(host::OrdersMemory& memory) {
  const uint32_t number = memory.number;
  std::string text(memory.text.size(), '\0');
  std::memcpy(text.data(), memory.text.data(), text.size());
  text.resize(std::min(text.find('\0'), text.size()));
  switch (memory.kind) {
    case host::OrderKind::kOrder:
      return order(memory, text);
    case host::OrderKind::kRemove:
      return remove_faults(number);
    case host::OrderKind::kList:
      list_faults(memory);
      return {};
    case host::OrderKind::kStop:
      stop_capture();
      return {};
  }
  return Error{EPROTO, "the process has another version of uroce"};
}

Status DebugCommands::order(host::OrdersMemory& memory, std::string_view text) {
  if (text.starts_with(host::kCaptureOrder)) return capture(memory, text);
  if (text.starts_with(host::kBreakOrder)) {
    memory.number_answered = 1;
    return break_at_once(text);
  }
  const auto id = add_fault(text);
  if (!id) return id.error();
  memory.number_answered = *id;
  return {};
}

Result<std::vector<Device*>> DebugCommands::meant_by(const host::Scope& scope) const {
  std::vector<Device*> meant;
  for (Device* const device : devices_)
    if (scope.device.empty() || scope.device == device->name()) meant.push_back(device);
  if (meant.empty())
    return Error{ENODEV, fmt::format("device: the process has no device {} of its own", scope.device)};
  return meant;
}

/// Adds a fault to the devices that the order means; if it means a queue pair, to those that have it.
Result<uint32_t> DebugCommands::add_fault(std::string_view text) {
  const auto rule = faults::parse_rule(text);
  if (!rule) return rule.error();
  const auto meant = meant_by(rule->scope);
  if (!meant) return meant.error();
  if (faults_.size() == faults::kRulesMax)
    return Error{ENOSPC, fmt::format("there are {} faults already", faults::kRulesMax)};
  if (std::ranges::any_of(*meant, &Device::serves_programs))
    return Error{EOPNOTSUPP,
                 "packets meet the faults of a service in its programs: name its device, no process"};
  const uint32_t id = next_++;
  bool taken = false;
  for (Device* const device : *meant) {
    const Status status = device->add_fault({id, *rule});
    taken |= status.ok();
    if (status || status.error().code == ENOENT) continue;
    for (Device* const other : *meant) other->remove_fault(id);
    return status.error();
  }
  if (!taken) return no_queue_pair(rule->scope);
  faults_.push_back({id, *rule, MachineClocks::system()});
  return id;
}

Status DebugCommands::break_at_once(std::string_view text) {
  const auto broken = faults::parse_breakage(text);
  if (!broken) return Error{EINVAL, "give qp, device, client, or key and client"};
  const auto meant = meant_by(broken->scope);
  if (!meant) return meant.error();
  int error = ENOENT;
  for (Device* const device : *meant) {
    const int its = device->break_at_once(*broken);
    if (its == 0 || error == ENOENT) error = error == 0 ? 0 : its;
  }
  if (error == 0) return {};
  if (broken->what != faults::Breakage::What::kKey) return no_queue_pair(broken->scope);
  return Error{error, faults::why_key_stays(broken->scope.client.value_or(0), broken->key, error)};
}

Status DebugCommands::capture(host::OrdersMemory& memory, std::string_view text) {
  const auto order = capture::parse_order(text);
  if (!order) return order.error();
  const auto meant = meant_by(order->scope);
  if (!meant) return meant.error();
  if (!memory_->has_capturer()) return Error{EPROTO, "a tool that orders a capture holds its lock"};
  stop_capture();  // of a tool that has gone
  for (Device* const device : *meant) {
    if (memory.captures_shown == host::kCapturesMax) break;
    const auto descriptor = device->add_capture(kCaptureId, *order);
    if (!descriptor && descriptor.error().code == ENOENT) continue;
    if (!descriptor) {
      stop_capture();
      return descriptor.error();
    }
    captures_ = true;
    host::CaptureShown& shown = memory.captures[memory.captures_shown++];
    host::set_text(shown.device, device->name());
    shown.descriptor = *descriptor;
  }
  if (!captures_) return no_queue_pair(order->scope);
  return {};
}

void DebugCommands::stop_capture() {
  captures_ = false;
  for (Device* const device : devices_) device->remove_capture(kCaptureId);
}

Status DebugCommands::remove_faults(uint32_t id) {
  const auto is_meant = [&](const Ordered& fault) { return id == 0 || fault.id == id; };
  for (const Ordered& fault : faults_)
    if (is_meant(fault))
      for (Device* const device : devices_) device->remove_fault(fault.id);
  if (std::erase_if(faults_, is_meant) == 0 && id != 0)
    return Error{ENOENT, fmt::format("there is no fault {}", id)};
  return {};
}

void DebugCommands::list_faults(host::OrdersMemory& memory) const {
  const Instant now = MachineClocks::system();
  std::vector<InjectedFaults::Report> reports;
  for (const Device* const device : devices_)
    for (const InjectedFaults::Report& report : device->faults()) reports.push_back(report);
  for (const Ordered& fault : faults_) {
    host::FaultShown& shown = memory.faults[memory.faults_shown++];
    shown = {.id = fault.id, .state = faults::state_after(fault.rule, now - fault.since)};
    host::set_text(shown.rule, faults::to_text(fault.rule));
    for (const InjectedFaults::Report& report : reports)
      for (size_t i = 0; report.rule.id == fault.id && i < shown.counts.size(); ++i)
        shown.counts[i] += report.counts[i];
  }
}

}  // namespace uroce::engine
