// Faults that programs' packets meet, as `uroce fault` orders and ends them. The programs do it; here is what
// is known of it, for those that come later, too.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/values/printable.h"
#include "capture/order.h"
#include "faults/breakage.h"
#include "faults/count_labels.h"
#include "service/service.h"

namespace uroce::service {

using host::MessageType;

namespace {

constexpr uint32_t kLastId = (1u << 16) - 1;
static_assert(host::kFaultsMax == faults::kRulesMax);

bool concerns(const OrderedFault& fault, const ClientProcess& program) {
  const host::Scope& scope = fault.rule.scope;
  return program.attached() && (scope.device.empty() || program.device->name() == scope.device) &&
         (!scope.client || static_cast<uint32_t>(program.peer.pid) == *scope.client) &&
         (!scope.queue_pair || program.attachment->block().contains(*scope.queue_pair));
}

}  // namespace

Status Service::may_order_faults(const ClientProcess& program, const Message& message) const {
  if (Status status = serves(message); !status) return status;
  if (program.peer.uid == 0 || program.peer.uid == geteuid()) return {};
  return Error{EPERM, "only the service's own user and the superuser may order faults"};
}

void Service::add_fault(ClientProcess& program, const Message& message) {
  if (Status status = may_order_faults(program, message); !status) return answer(program, message, status);
  if (host::text_of(message.text).starts_with(host::kBreakOrder)) return break_object(program, message);
  if (host::text_of(message.text).starts_with(host::kCaptureOrder)) return add_capture(program, message);
  const auto rule = faults::parse_rule(host::text_of(message.text));
  if (!rule) return answer(program, message, rule.error());
  OrderedFault fault{.id = next_fault_, .rule = *rule, .since = now_};
  if (Status status = may_apply(fault); !status) return answer(program, message, status);
  next_fault_ = next_fault_ % kLastId + 1;
  // Only the program knows its queue pairs.
  if (rule->scope.queue_pair) {
    fault.caller = program.id;
    fault.request = message.request;
  } else {
    post(program, {.type = MessageType::kDone, .request = message.request, .number = fault.id});
  }
  faults_.push_back(std::move(fault));
  inform_all();
}

/// What is broken at once: a queue pair, or the device for those of its programs that are meant.
void Service::break_object(ClientProcess& program, const Message& message) {
  const auto meant = faults::parse_breakage(host::text_of(message.text));
  if (!meant) return answer(program, message, Error{EINVAL, "give qp, device, client, or key and client"});
  OrderedFault fault{.id = next_fault_, .rule = {.scope = meant->scope}, .since = now_};
  if (meant->what == faults::Breakage::What::kKey) fault.key = meant->key;
  if (Status status = may_apply(fault); !status) return answer(program, message, status);
  next_fault_ = next_fault_ % kLastId + 1;
  Message order{.type = MessageType::kFault, .number = fault.id, .text = message.text};
  uint32_t told = 0;
  for (auto& [id, other] : programs_) {
    if (other->ended || !concerns(fault, *other)) continue;
    order_fault(*other, order);
    ++told;
  }
  if (!meant->is_of_one())
    return post(program, {.type = MessageType::kDone, .request = message.request, .number = told});
  fault.caller = program.id;
  fault.request = message.request;
  fault.once = true;
  faults_.push_back(std::move(fault));
}

/// Whether it names what there is.
Status Service::may_apply(const OrderedFault& fault) const {
  const host::Scope& scope = fault.rule.scope;
  if (faults_.size() == host::kFaultsMax)
    return Error{ENOSPC, fmt::format("there are {} faults already", host::kFaultsMax)};
  const auto same_name = [&](const auto& device) { return device->name() == scope.device; };
  if (!scope.device.empty() && std::ranges::none_of(devices_, same_name))
    return Error{ENODEV, fmt::format("device: the service has no device {}", scope.device)};
  if (!scope.client && !scope.queue_pair) return {};
  const auto its = [&](const auto& entry) { return !entry.second->ended && concerns(fault, *entry.second); };
  if (std::ranges::any_of(programs_, its)) return {};
  if (scope.queue_pair)
    return Error{ENOENT, fmt::format("qp: no program has queue pair {}", scope.queue_pair->value)};
  return Error{ESRCH, fmt::format("client: process {} uses no device of the service", *scope.client)};
}

void Service::order_fault(ClientProcess& program, const Message& order) {
  post(program, order);
  program.unanswered_faults.push_back(order.number);
}

/// A program answers each order once: each answer to a capture brings a descriptor.
void Service::fault_taken(ClientProcess& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  if (std::erase(program.unanswered_faults, message.number) == 0)
    return violate(program, "an answer to an order that there was not, or that was answered before");
  const auto fault = std::ranges::find(faults_, message.number, &OrderedFault::id);
  if (fault == faults_.end() || !concerns(*fault, program)) return;
  if (!fault->capture.empty()) return capture_taken(program, datagram, *fault);
  if (fault->caller == 0) return;
  ClientProcess* const caller = find(std::exchange(fault->caller, 0));
  const Message asked{.request = fault->request};
  if (message.error == 0) {
    const uint32_t number = fault->once ? 1 : fault->id;
    if (fault->once) faults_.erase(fault);
    if (caller != nullptr)
      post(*caller, {.type = MessageType::kDone, .request = asked.request, .number = number});
    return;
  }
  const host::Scope& scope = fault->rule.scope;
  const std::string missing =
      fault->key ? faults::why_key_stays(scope.client.value_or(0), *fault->key, message.error)
                 : fmt::format("qp: there is no queue pair {}", scope.queue_pair.value_or(QpNumber{}).value);
  faults_.erase(fault);
  if (caller != nullptr) answer(*caller, asked, Error{ENOENT, missing});
  inform_all();
}

Status Service::remove_fault(const ClientProcess& program, const Message& message) {
  if (Status status = may_order_faults(program, message); !status) return status;
  const auto removed = std::erase_if(faults_, [&](const OrderedFault& fault) {
    return fault.capture.empty() && (message.number == 0 || fault.id == message.number);
  });
  if (removed == 0 && message.number != 0)
    return Error{ENOENT, fmt::format("there is no fault {}", message.number)};
  inform_all();
  return {};
}

void Service::inform_of_faults(ClientProcess& program) {
  const auto is_meant = [&](uint32_t id) {
    const auto fault = std::ranges::find(faults_, id, &OrderedFault::id);
    return fault != faults_.end();
  };
  for (const uint32_t id : program.told_faults)
    if (!is_meant(id)) post(program, {.type = MessageType::kFaultRemoved, .number = id});
  std::erase_if(program.told_faults, [&](uint32_t id) { return !is_meant(id); });
  for (const OrderedFault& fault : faults_) {
    const bool told = std::ranges::find(program.told_faults, fault.id) != program.told_faults.end();
    if (told || fault.once || !concerns(fault, program)) continue;
    const auto rule = fault.rule_left(now_);
    if (!rule) continue;
    Message message{.type = MessageType::kFault, .number = fault.id};
    host::set_text(message.text, fault.capture.empty() ? faults::to_text(*rule) : fault.capture);
    order_fault(program, message);
    program.told_faults.push_back(fault.id);
  }
}

/// Before the program's memory goes: what it has counted stays, and faults of its own end with it.
void Service::end_faults_of(ClientProcess& program) {
  const auto ends = [&](OrderedFault& fault) {
    if (!concerns(fault, program)) return false;
    const OrderedFault::Counts counts = program.attachment->fault_counts(fault.id);
    for (size_t i = 0; i < counts.size(); ++i) fault.ended[i] += counts[i];
    if (!fault.rule.scope.client && !fault.rule.scope.queue_pair) return false;
    const uint32_t waiting = fault.owner != 0 ? fault.owner : fault.caller;
    if (ClientProcess* const caller = find(waiting))
      answer(*caller, {.request = fault.request}, Error{ESRCH, "the program has ended"});
    return true;
  };
  std::erase_if(faults_, ends);
  program.told_faults.clear();
}

void Service::list_faults(ClientProcess& program, const Message& message) {
  Status status = serves(message);
  if (status) status = may_use(program);
  if (!status) return answer(program, message, status);
  nlohmann::json all = nlohmann::json::array();
  for (const OrderedFault& fault : faults_) {
    if (fault.once || !fault.capture.empty()) continue;
    OrderedFault::Counts counts = fault.ended;
    uint32_t programs = 0;
    for (const auto& [id, other] : programs_) {
      if (!concerns(fault, *other)) continue;
      ++programs;
      const OrderedFault::Counts its = other->attachment->fault_counts(fault.id);
      for (size_t i = 0; i < counts.size(); ++i) counts[i] += its[i];
    }
    nlohmann::json counted = nlohmann::json::object();
    for (size_t i = 0; i < counts.size(); ++i) counted[faults::kCountLabels[i]] = counts[i];
    all.push_back({{"id", fault.id},
                   {"rule", faults::to_text(fault.rule)},
                   {"state", faults::name_of(fault.state(now_))},
                   {"programs", programs},
                   {"counts", counted}});
  }
  using nlohmann::json;
  post_text(program, message,
            std::make_shared<const std::string>(
                status ? all.dump(-1, ' ', true, json::error_handler_t::replace) : std::string()));
  answer(program, message, status);
}

// Captures. They go the same way, and end with the connection that ordered them.

void Service::add_capture(ClientProcess& program, const Message& message) {
  const std::string text(host::text_of(message.text));
  const auto order = capture::parse_order(text);
  if (!order) return answer(program, message, order.error());
  OrderedFault fault;
  fault.id = next_fault_;
  fault.since = now_;
  fault.capture = text;
  fault.owner = program.id;
  fault.rule.scope = order->scope;
  if (owns_capture(program))
    return answer(program, message, Error{EBUSY, "one capture of a connection at a time"});
  if (Status status = may_apply(fault); !status) return answer(program, message, status);
  const auto its = [&](const auto& entry) { return !entry.second->ended && concerns(fault, *entry.second); };
  if (message.count == 0 && std::ranges::none_of(programs_, its))
    return answer(program, message, Error{ESRCH, "no program uses a device of the service"});
  next_fault_ = next_fault_ % kLastId + 1;
  fault.request = message.request;
  post(program, {.type = MessageType::kDone, .request = message.request, .number = fault.id});
  faults_.push_back(std::move(fault));
  inform_all();
}

/// The program captures: the one that ordered it gets the memory, unless it does not read. Descriptors that
/// wait would be taken from all others.
void Service::capture_taken(ClientProcess& program, host::Datagram& datagram, OrderedFault& fault) {
  ClientProcess* const owner = find(fault.owner);
  if (owner == nullptr) return;
  if (owner->outbox.waiting() >= kRelayedUnreadMax) {
    ++fault.not_passed_on;
    return;
  }
  if (fault.not_passed_on != 0) {
    Message missing{
        .type = MessageType::kCaptured, .request = fault.request, .error = ENOBUFS, .number = fault.id};
    host::set_text(missing.text,
                   fmt::format("{} captures were not passed on, because those before them were not read",
                               std::exchange(fault.not_passed_on, 0)));
    post(*owner, missing);
  }
  const Message& message = datagram.message;
  // The owner may be the superuser's, and closes it.
  const bool captures = message.error == 0 && datagram.descriptors == 1 &&
                        host::size_of_sealed_memory(datagram.descriptor[0].get()).ok();
  Message captured{.type = MessageType::kCaptured,
                   .request = fault.request,
                   .error = captures ? 0 : std::max(1, message.error),
                   .number = fault.id,
                   .id = static_cast<uint64_t>(program.peer.pid)};
  host::set_text(captured.name, program.device->name());
  host::set_text(captured.text, captures             ? program.name
                                : message.error == 0 ? program.name + ": its memory is not sealed"
                                                     : printable(message.text));
  Outbox::Letter letter{.message = captured, .descriptors = {}};
  if (captures) letter.descriptors = {handed_on(program, std::move(datagram.descriptor[0]))};
  owner->outbox.post(std::move(letter));
}

void Service::end_captures_of(const ClientProcess& program) {
  std::erase_if(faults_, [&](const OrderedFault& fault) { return fault.owner == program.id; });
}

bool Service::owns_capture(const ClientProcess& program) const {
  return std::ranges::find(faults_, program.id, &OrderedFault::owner) != faults_.end();
}

}  // namespace uroce::service
