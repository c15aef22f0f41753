#include "apps/serve/fault_client.h"

#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/serve/asking.h"
#include "apps/serve/process_orders.h"
#include "base/values/printable.h"
#include "faults/count_labels.h"
#include "faults/schedule.h"

namespace uroce::serve {
namespace {

using host::MessageType;
using nlohmann::json;

std::string no_orders(uint32_t client) {
  return fmt::format(
      "client: process {} has no device of its own, or is not yours; without --client it is the service's "
      "faults",
      client);
}

void print_fault(const json& fault) {
  std::string counts;
  for (const auto& [name, count] : fault.at("counts").items())
    if (const auto value = count.get<uint64_t>(); value != 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", value, printable(name));
  fmt::print("{:>5} {:<8} {:>8} {:<40} {}\n", fault.at("id").get<uint32_t>(),
             printable(fault.at("state").get<std::string>()), fault.at("programs").get<uint32_t>(),
             printable(fault.at("rule").get<std::string>()), counts.empty() ? "no packet" : counts);
}

json json_of(const host::FaultShown& shown) {
  json counts = json::object();
  for (size_t i = 0; i < shown.counts.size(); ++i) counts[faults::kCountLabels[i]] = shown.counts[i];
  return {{"id", shown.id},
          {"rule", printable(shown.rule)},
          {"state", faults::name_of(shown.state)},
          {"programs", 1},
          {"counts", counts}};
}

/// What the process itself answers, if it has a port of its own; else null: it may be a program of the
/// service.
Result<std::optional<ProcessOrders::Answer>> ask_process(std::optional<uint32_t> client, host::OrderKind kind,
                                                         uint32_t number, std::string_view text = {}) {
  using Answered = std::optional<ProcessOrders::Answer>;
  if (!client) return Answered();
  auto orders = ProcessOrders::find(*client);
  if (!orders) return orders.error();
  if (!*orders) return Answered();
  auto answer = (*orders)->order(kind, number, text);
  // It has the device that was named, if at all, from the service.
  if (!answer && answer.error().code == ENODEV) return Answered();
  return answer ? Result<Answered>(std::move(*answer)) : Result<Answered>(answer.error());
}

/// Prints the number that the process, or the service, answers.
int order(const char* command, const std::string& socket, std::optional<uint32_t> client,
          const std::string& text) {
  const auto of_process = ask_process(client, host::OrderKind::kOrder, 0, text);
  if (!of_process) return fail(command, of_process.error().message);
  uint32_t number = 0;
  if (*of_process) {
    number = (*of_process)->number;
  } else {
    host::Message message{.type = MessageType::kFaultAdd};
    host::set_text(message.text, text);
    const auto answer = ask(socket, message, kAnswerMs);
    if (!answer) return fail(command, answer.error().message);
    number = answer->number;
  }
  fmt::print("{}\n", number);
  return 0;
}

}  // namespace

int add_fault(const std::string& socket, const faults::Rule& rule) {
  return order("fault add", socket, rule.scope.client, faults::to_text(rule));
}

int break_object(const std::string& socket, std::optional<uint32_t> client, const std::string& text) {
  return order("fault break", socket, client, text);
}

int list_faults(const std::string& socket, std::optional<uint32_t> client, bool as_json) {
  const auto of_process = ask_process(client, host::OrderKind::kList, 0);
  if (!of_process) return fail("fault list", of_process.error().message);
  json all = json::array();
  if (*of_process) {
    for (const host::FaultShown& shown : (*of_process)->faults) all.push_back(json_of(shown));
  } else if (client) {
    return fail("fault list", no_orders(*client));
  } else {
    const auto answer = ask(socket, {.type = MessageType::kFaultList}, kAnswerMs);
    if (!answer) return fail("fault list", answer.error().message);
    all = json::parse(answer->text, nullptr, false);
  }
  try {
    if (as_json) {
      fmt::print("{}\n", all.dump(-1, ' ', true, json::error_handler_t::replace));
      return 0;
    }
    if (all.empty()) return 0;
    fmt::print("{:>5} {:<8} {:>8} {:<40} {}\n", "ID", "STATE", "PROGRAMS", "FAULT", "PACKETS");
    for (const json& fault : all) print_fault(fault);
  } catch (const json::exception& error) {
    return fail("fault list", fmt::format("the answer is not understood: {}", error.what()));
  }
  return 0;
}

int clear_fault(const std::string& socket, std::optional<uint32_t> client, uint32_t id) {
  const auto of_process = ask_process(client, host::OrderKind::kRemove, id);
  if (!of_process) return fail("fault clear", of_process.error().message);
  if (*of_process) return 0;
  if (client) return fail("fault clear", no_orders(*client));
  const auto answer = ask(socket, {.type = MessageType::kFaultRemove, .number = id}, kAnswerMs);
  return answer ? 0 : fail("fault clear", answer.error().message);
}

}  // namespace uroce::serve
